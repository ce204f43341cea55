//! OpenTelemetry's environment variables, as its specification names them: whether traces are sent, where, and as what.

use std::time::Duration;

use crate::error::{Result, ServerError};

/// Where traces are sent, and how.
#[derive(Clone, PartialEq)]
pub(crate) struct Settings {
    /// The URL to which spans are posted.
    pub endpoint: String,
    /// Headers of each request. They may have secrets, so they are never shown.
    pub headers: Vec<(String, String)>,
    /// The time limit of a request.
    pub timeout: Duration,
    /// The attributes of this service, of which the first is its name.
    pub resource: Vec<(String, String)>,
    /// The share of statements that are traced, from 0 to 1.
    pub share: f64,
    /// How long spans wait for others.
    pub delay: Duration,
    /// The most statements that wait.
    pub queue: usize,
    /// The most statements in a request.
    pub batch: usize,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("share", &self.share).finish_non_exhaustive()
    }
}

const HINT: &str = "see OpenTelemetry's documentation of this environment variable, or unset it";

fn wrong(name: &str, value: &str, reason: &str) -> ServerError {
    ServerError::new(format!("{name} is {value:?}: {reason}")).with_hint(HINT)
}

/// Variables by their names; an empty one counts as unset.
struct Variables<F>(F);

impl<F: Fn(&str) -> Option<String>> Variables<F> {
    fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    /// That for traces, or that for all signals: `OTEL_EXPORTER_OTLP_TRACES_NAME` or `OTEL_EXPORTER_OTLP_NAME`.
    fn of_exporter(&self, name: &str) -> Option<(String, String)> {
        let names = [format!("OTEL_EXPORTER_OTLP_TRACES_{name}"), format!("OTEL_EXPORTER_OTLP_{name}")];
        names.into_iter().find_map(|name| self.get(&name).map(|value| (name, value)))
    }

    fn number(&self, name: &str, usual: u64) -> Result<u64> {
        let Some(value) = self.get(name) else { return Ok(usual) };
        value
            .parse()
            .ok()
            .filter(|number| *number > 0)
            .ok_or_else(|| wrong(name, &value, "it must be a number above 0"))
    }

    fn is_wanted(&self) -> Result<bool> {
        if self.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(false);
        }
        match self.get("OTEL_TRACES_EXPORTER").as_deref() {
            Some("none") => Ok(false),
            Some("otlp") => Ok(true),
            None => Ok(self.of_exporter("ENDPOINT").is_some()),
            Some(other) => Err(wrong("OTEL_TRACES_EXPORTER", other, "traces are sent by otlp, or by none")),
        }
    }

    fn endpoint(&self) -> Result<String> {
        let (name, url) = match self.of_exporter("ENDPOINT") {
            Some((name, url)) if name.contains("_TRACES_") => (name, url),
            Some((name, url)) => (name, format!("{}/v1/traces", url.trim_end_matches('/'))),
            None => (String::new(), "http://localhost:4318/v1/traces".to_owned()),
        };
        match reqwest::Url::parse(&url) {
            Ok(parsed) if matches!(parsed.scheme(), "http" | "https") => Ok(url),
            _ => Err(ServerError::new(format!("{name} is no URL of http or https")).with_hint(HINT)),
        }
    }

    fn share(&self) -> Result<f64> {
        const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
        const SHARE: &str = "OTEL_TRACES_SAMPLER_ARG";
        let sampler = self.get(SAMPLER).unwrap_or_else(|| "always_on".to_owned());
        match sampler.trim_start_matches("parentbased_") {
            "always_on" => Ok(1.0),
            "always_off" => Ok(0.0),
            "traceidratio" => {
                let Some(value) = self.get(SHARE) else { return Ok(1.0) };
                let share = value.parse().ok().filter(|share| (0.0..=1.0).contains(share));
                share.ok_or_else(|| wrong(SHARE, &value, "it must be a number from 0 to 1"))
            }
            _ => Err(wrong(SAMPLER, &sampler, "it must be always_on, always_off or traceidratio")),
        }
    }

    fn resource(&self) -> Result<Vec<(String, String)>> {
        const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
        let mut given = pairs(ATTRIBUTES, self.get(ATTRIBUTES))?;
        let named = given.iter().position(|(key, _)| key == "service.name").map(|at| given.remove(at).1);
        let name = self.get("OTEL_SERVICE_NAME").or(named).unwrap_or_else(|| "freestone".to_owned());
        let own = [("service.name", name), ("service.version", env!("CARGO_PKG_VERSION").to_owned())];
        let is_given = |key: &str| given.iter().any(|(known, _)| known == key);
        let own: Vec<_> = own.into_iter().filter(|(key, _)| !is_given(key)).collect();
        Ok(own.into_iter().map(|(key, value)| (key.to_owned(), value)).chain(given.clone()).collect())
    }
}

impl Settings {
    /// Those of the environment; `None` if no traces are wanted.
    ///
    /// # Errors
    /// A variable has a value that it cannot have, or asks for what is not supported.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Settings>> {
        let variables = Variables(variable);
        if !variables.is_wanted()? {
            return Ok(None);
        }
        let unsupported = [
            ("PROTOCOL", "http/protobuf", "only http/protobuf is supported, whose usual port is 4318"),
            ("COMPRESSION", "none", "requests are not compressed"),
            ("CERTIFICATE", "", "the certificates of the system are used"),
            ("CLIENT_KEY", "", "clients have no certificates"),
            ("CLIENT_CERTIFICATE", "", "clients have no certificates"),
        ];
        for (name, supported, reason) in unsupported {
            if let Some((name, value)) = variables.of_exporter(name).filter(|(_, value)| value != supported) {
                return Err(wrong(&name, &value, reason));
            }
        }
        let (name, headers) = variables.of_exporter("HEADERS").unzip();
        let timeout = match variables.of_exporter("TIMEOUT") {
            Some((name, _)) => variables.number(&name, 0)?,
            None => 10_000,
        };
        let (queue, batch) = ("OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE");
        Ok(Some(Settings {
            endpoint: variables.endpoint()?,
            headers: pairs(&name.unwrap_or_default(), headers)?,
            timeout: Duration::from_millis(timeout),
            resource: variables.resource()?,
            share: variables.share()?,
            delay: Duration::from_millis(variables.number("OTEL_BSP_SCHEDULE_DELAY", 5_000)?),
            queue: variables.number(queue, 2_048)?.min(1 << 20) as usize,
            batch: variables.number(batch, 512)?.min(1 << 16) as usize,
        }))
    }

    #[cfg(test)]
    pub fn for_tests(endpoint: &str) -> Settings {
        let endpoint = endpoint.to_owned();
        let variables = |name: &str| (name == "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").then(|| endpoint.clone());
        Settings::of(variables).expect("settings").expect("traces are wanted")
    }
}

/// The pairs of a list `key=value,key=value`, whose values may have `%20` for a character.
fn pairs(name: &str, list: Option<String>) -> Result<Vec<(String, String)>> {
    let list = list.unwrap_or_default();
    let items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
    let pair = |item: &str| {
        let (key, value) = item.split_once('=')?;
        Some((key.trim().to_owned(), unescaped(value.trim())?)).filter(|(key, _)| !key.is_empty())
    };
    // The value may be a secret, so it is not shown.
    let wrong = || ServerError::new(format!("{name} is no list key=value,key=value")).with_hint(HINT);
    items.map(|item| pair(item).ok_or_else(wrong)).collect()
}

/// A text with `%` and two hexadecimal digits for a byte.
fn unescaped(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (vec![], text.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        match first {
            b'%' => {
                let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &rest[2..];
            }
            other => bytes.push(*other),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[(&str, &str)]) -> std::result::Result<Option<Settings>, String> {
        let variable = |name: &str| given.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string());
        Settings::of(variable).map_err(|error| error.to_string())
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");

    #[test]
    fn traces_are_sent_only_if_they_are_wanted() {
        for given in [
            &[][..],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")],
            &[ENDPOINT, ("OTEL_SDK_DISABLED", "true")],
            &[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")],
        ] {
            assert_eq!(read(given), Ok(None), "{given:?}");
        }
        let wanted = |given: &[(&str, &str)]| read(given).expect("settings").expect("wanted").endpoint;
        assert_eq!(wanted(&[ENDPOINT]), "http://collector:4318/v1/traces");
        assert_eq!(wanted(&[("OTEL_TRACES_EXPORTER", "otlp")]), "http://localhost:4318/v1/traces");
        assert_eq!(wanted(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://a/b")]), "https://a/b");
    }

    #[test]
    fn lists_have_keys_and_values() {
        let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20a%3Db, x = y");
        let resource = ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=other");
        let settings = read(&[ENDPOINT, headers, resource]).expect("settings").expect("wanted");
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(settings.headers, [pair("authorization", "Bearer a=b"), pair("x", "y")]);
        assert_eq!(settings.resource[0], pair("service.name", "other"));
        assert_eq!(settings.resource[2], pair("deployment.environment.name", "test"));
        assert!(!format!("{settings:?}").contains("Bearer"));
        let named = read(&[ENDPOINT, resource, ("OTEL_SERVICE_NAME", "mine")]).expect("settings").expect("wanted");
        assert_eq!(named.resource[0], pair("service.name", "mine"));
    }

    #[test]
    fn wrong_values_are_errors_without_secrets() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "ca.pem"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://secret@a"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=%zz"),
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_TRACES_SAMPLER", "sometimes"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
        ] {
            let error = read(&[ENDPOINT, (name, value)]).expect_err(value);
            assert!(error.starts_with(name) && !error.contains("secret"), "{error}");
        }
        let share = ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio");
        let read = |arg| read(&[ENDPOINT, share, ("OTEL_TRACES_SAMPLER_ARG", arg)]);
        assert_eq!(read("0.25").expect("settings").expect("wanted").share, 0.25);
        assert!(read("2").is_err());
    }
}
