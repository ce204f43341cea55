//! Secrets: named credentials of a session, each for the URLs within its scope. They are in memory only, and nothing shows what
//! is secret of them.

use crate::client::Credentials;
use crate::location::{LocationError, Scheme};

/// A kind of secret: its name, the scheme, the URLs that it is for unless it says which, and its options, of which the last two
/// lists are what may be shown and what may not.
struct Kind {
    name: &'static str,
    scheme: Scheme,
    scopes: &'static [&'static str],
    shown: &'static [&'static str],
    hidden: &'static [&'static str],
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "s3",
        scheme: Scheme::S3,
        scopes: &["s3://", "s3a://"],
        shown: &["key_id", "region", "endpoint", "url_style", "use_ssl"],
        hidden: &["secret", "session_token"],
    },
    Kind {
        name: "gcs",
        scheme: Scheme::Google,
        scopes: &["gs://", "gcs://"],
        shown: &["key_id"],
        hidden: &["secret", "service_account_key"],
    },
    Kind {
        name: "azure",
        scheme: Scheme::Azure,
        scopes: &["az://", "azure://"],
        shown: &["account_name", "endpoint", "tenant_id", "client_id"],
        hidden: &["account_key", "sas_token", "client_secret", "connection_string"],
    },
    Kind {
        name: "http",
        scheme: Scheme::Http,
        scopes: &["https://", "http://"],
        shown: &[],
        hidden: &["bearer_token"],
    },
];

/// Credentials by name. It has no `Debug`, so that nothing prints it.
pub struct Secret {
    name: String,
    kind: &'static Kind,
    provider: &'static str,
    scopes: Vec<String>,
    /// The options as they were given, in small letters.
    options: Vec<(String, String)>,
}

/// What is shown of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownSecret {
    /// Its name.
    pub name: String,
    /// `s3`, `gcs`, `azure` or `http`.
    pub kind: &'static str,
    /// `config`: it has the credentials; `credential_chain`: the environment has them.
    pub provider: &'static str,
    /// The beginnings of the URLs that it is for.
    pub scopes: Vec<String>,
    /// Its options, of which those that are secret are `redacted`.
    pub text: String,
}

impl Secret {
    /// A secret with options as CREATE SECRET has them; without a name it is the default one of its type.
    ///
    /// # Errors
    /// An option is not one of its type, or has no such value. The message has no value of an option.
    pub fn new(name: Option<&str>, options: Vec<(String, String)>) -> Result<Secret, LocationError> {
        let wrong = |text: String| Err(LocationError(text));
        let mut kind = None;
        let (mut provider, mut scopes, mut others) = ("config", vec![], vec![]);
        for (option, value) in options {
            let option = option.to_ascii_lowercase();
            match option.as_str() {
                "type" => kind = KINDS.iter().find(|kind| value.eq_ignore_ascii_case(kind.name)),
                "provider" if value.eq_ignore_ascii_case("config") => {}
                "provider" if value.eq_ignore_ascii_case("credential_chain") => provider = "credential_chain",
                "provider" => return wrong("PROVIDER of a secret is config or credential_chain".to_owned()),
                "scope" => scopes.push(value),
                _ if others.iter().any(|(known, _)| *known == option) => {
                    return wrong(format!("the option {option} of a secret is there twice"));
                }
                _ => others.push((option, value)),
            }
        }
        let Some(kind) = kind else {
            return wrong("a secret has a TYPE, which is s3, gcs, azure or http".to_owned());
        };
        let is_known = |option: &str| kind.shown.iter().chain(kind.hidden).any(|known| *known == option);
        if let Some((option, _)) = others.iter().find(|(option, _)| !is_known(option)) {
            let known = [kind.shown, kind.hidden].concat().join(", ");
            return wrong(format!("{option} is no option of a secret of type {}; there are {known}", kind.name));
        }
        for scope in &scopes {
            if !kind.scopes.iter().any(|of_kind| scope.starts_with(of_kind)) {
                let known = kind.scopes.join(" or ");
                return wrong(format!("SCOPE of a secret of type {} begins with {known}", kind.name));
            }
        }
        if scopes.is_empty() {
            scopes = kind.scopes.iter().map(|&scope| scope.to_owned()).collect();
        }
        let name = name.map_or_else(|| format!("__default_{}", kind.name), str::to_owned);
        let secret = Secret { name, kind, provider, scopes, options: others };
        // Wrong values are found now, not by the first query.
        secret.credentials()?;
        Ok(secret)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is shown of it.
    pub fn shown(&self) -> ShownSecret {
        let mut text = format!("name={};type={};provider={}", self.name, self.kind.name, self.provider);
        text.push_str(&format!(";scope={}", self.scopes.join(",")));
        for (option, value) in &self.options {
            let is_hidden = self.kind.hidden.contains(&option.as_str());
            text.push_str(&format!(";{option}={}", if is_hidden { "redacted" } else { value.as_str() }));
        }
        let (name, scopes) = (self.name.clone(), self.scopes.clone());
        ShownSecret { name, kind: self.kind.name, provider: self.provider, scopes, text }
    }

    /// How many bytes of a URL are within its scope, if it is for this URL.
    pub(crate) fn covers(&self, scheme: Scheme, url: &str) -> Option<usize> {
        let is_within = |scope: &&String| {
            url.strip_prefix(scope.as_str()).is_some_and(|rest| {
                // `s3://a` is not meant for the bucket `ab`.
                rest.is_empty() || scope.ends_with('/') || rest.starts_with('/')
            })
        };
        let scopes = self.scopes.iter().filter(is_within);
        scopes.map(String::len).max().filter(|_| self.kind.scheme == scheme)
    }

    fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The settings of a client that has these credentials.
    pub(crate) fn credentials(&self) -> Result<Credentials, LocationError> {
        let settings = match self.kind.scheme {
            Scheme::Google if self.option("key_id").is_some() => {
                let mut settings = self.of_s3()?;
                settings.push(("aws_endpoint".to_owned(), "https://storage.googleapis.com".to_owned()));
                settings
            }
            Scheme::Google => self.renamed(&[("service_account_key", "google_service_account_key")]),
            Scheme::Azure => self.of_azure()?,
            Scheme::Http => self.renamed(&[("bearer_token", "bearer_token")]),
            _ => self.of_s3()?,
        };
        Ok(Credentials { has_environment: self.provider == "credential_chain", settings })
    }

    fn renamed(&self, names: &[(&str, &str)]) -> Vec<(String, String)> {
        let setting = |(own, other): &(&str, &str)| Some(((*other).to_owned(), self.option(own)?.to_owned()));
        names.iter().filter_map(setting).collect()
    }

    fn of_s3(&self) -> Result<Vec<(String, String)>, LocationError> {
        let mut settings = self.renamed(&[
            ("key_id", "aws_access_key_id"),
            ("secret", "aws_secret_access_key"),
            ("session_token", "aws_session_token"),
            ("region", "aws_region"),
        ]);
        if self.option("key_id").is_some() != self.option("secret").is_some() {
            return Err(LocationError("a secret has KEY_ID and SECRET, or none of them".to_owned()));
        }
        let mut set = |name: &str, value: &str| settings.push((name.to_owned(), value.to_owned()));
        if self.option("key_id").is_none() && self.provider == "config" {
            // What everybody may read.
            set("aws_skip_signature", "true");
        }
        let is_plain = match self.option("use_ssl").map(str::to_ascii_lowercase).as_deref() {
            None | Some("true" | "1") => false,
            Some("false" | "0") => true,
            Some(_) => return Err(LocationError("USE_SSL of a secret is true or false".to_owned())),
        };
        match self.option("url_style") {
            None | Some("path") => {}
            Some("vhost") if self.option("endpoint").is_none() => set("aws_virtual_hosted_style_request", "true"),
            Some(_) => {
                return Err(LocationError("URL_STYLE of a secret is path, or vhost without an ENDPOINT".to_owned()));
            }
        }
        if let Some(endpoint) = self.option("endpoint") {
            let with_scheme = match endpoint.contains("://") {
                true => endpoint.to_owned(),
                false => format!("{}://{endpoint}", if is_plain { "http" } else { "https" }),
            };
            set("aws_endpoint", &with_scheme);
            if with_scheme.starts_with("http://") {
                set("aws_allow_http", "true");
            }
        }
        Ok(settings)
    }

    fn of_azure(&self) -> Result<Vec<(String, String)>, LocationError> {
        let mut settings = self.renamed(&[
            ("account_name", "azure_storage_account_name"),
            ("account_key", "azure_storage_account_key"),
            ("sas_token", "azure_storage_sas_token"),
            ("endpoint", "azure_storage_endpoint"),
            ("tenant_id", "azure_storage_tenant_id"),
            ("client_id", "azure_storage_client_id"),
            ("client_secret", "azure_storage_client_secret"),
        ]);
        for part in self.option("connection_string").into_iter().flat_map(|text| text.split(';')) {
            let Some((name, value)) = part.split_once('=') else { continue };
            let setting = match name.trim().to_ascii_lowercase().as_str() {
                "accountname" => "azure_storage_account_name",
                "accountkey" => "azure_storage_account_key",
                "sharedaccesssignature" => "azure_storage_sas_token",
                "blobendpoint" => "azure_storage_endpoint",
                _ => continue,
            };
            settings.push((setting.to_owned(), value.to_owned()));
        }
        if self.provider == "config" && !settings.iter().any(|(name, _)| name == "azure_storage_account_name") {
            let text = "a secret of type azure has ACCOUNT_NAME, or a CONNECTION_STRING with AccountName";
            return Err(LocationError(text.to_owned()));
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(options: &[(&str, &str)]) -> Result<Secret, String> {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Secret::new(None, options).map_err(|error| error.to_string())
    }

    #[test]
    fn scopes_end_at_names() {
        let secret = made(&[("TYPE", "S3"), ("SCOPE", "s3://b/x")]).expect("a secret");
        let covers = |url: &str| secret.covers(Scheme::S3, url);
        assert_eq!(covers("s3://b/x/y.csv"), Some(8));
        assert_eq!((covers("s3://b/xy.csv"), covers("s3://c/x/y"), covers("gs://b/x/y")), (None, None, None));
        let any = made(&[("type", "http")]).expect("a secret");
        assert_eq!((any.covers(Scheme::Http, "https://h/x"), any.covers(Scheme::S3, "https://h/x")), (Some(8), None));
        assert_eq!(any.name(), "__default_http");
    }

    #[test]
    fn what_is_secret_is_not_shown() {
        let given =
            [("type", "s3"), ("key_id", "AK"), ("secret", "HIDDEN"), ("session_token", "HIDDEN"), ("region", "r")];
        let shown = made(&given).expect("a secret").shown();
        let text = "name=__default_s3;type=s3;provider=config;scope=s3://,s3a://;key_id=AK;secret=redacted;\
                    session_token=redacted;region=r";
        assert_eq!(shown.text, text);
    }

    #[test]
    fn wrong_options_are_refused_without_their_values() {
        for (options, part) in [
            (&[("key_id", "HIDDEN")][..], "a secret has a TYPE"),
            (&[("type", "ftp")], "a secret has a TYPE"),
            (
                &[("type", "s3"), ("passphrase", "HIDDEN")],
                "passphrase is no option of a secret of type s3; there are key_id",
            ),
            (&[("type", "s3"), ("key_id", "HIDDEN")], "KEY_ID and SECRET"),
            (&[("type", "s3"), ("scope", "gs://b")], "SCOPE of a secret of type s3 begins with s3://"),
            (&[("type", "s3"), ("use_ssl", "HIDDEN")], "USE_SSL"),
            (&[("type", "s3"), ("url_style", "vhost"), ("endpoint", "HIDDEN")], "URL_STYLE"),
            (&[("type", "s3"), ("region", "a"), ("region", "b")], "region of a secret is there twice"),
            (&[("type", "azure"), ("account_key", "HIDDEN")], "ACCOUNT_NAME"),
            (&[("type", "s3"), ("provider", "HIDDEN")], "PROVIDER"),
        ] {
            let error = made(options).err().expect("an error");
            assert!(error.contains(part) && !error.contains("HIDDEN"), "{error}");
        }
    }
}
