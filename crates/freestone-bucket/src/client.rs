//! Clients of stores, from the environment or from the settings of a secret.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::{HttpClient, HttpConnector};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, Error, ObjectStore, Result, RetryConfig};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::redirect::{Attempt, Policy};

use crate::location::Scheme;

/// A request of a database that takes longer is given up. It is much less than half of any sensible retention.
const REQUEST: Duration = Duration::from_secs(120);
/// A file of any length may be read, but bytes must come.
const SILENCE: Duration = Duration::from_secs(60);
const CONNECT: Duration = Duration::from_secs(5);
/// Redirects that are followed, within one host.
const REDIRECTS: usize = 5;

/// How a store is reached. It has no `Debug`, so that nothing prints it.
pub(crate) struct Credentials {
    /// Whether the environment says what the settings do not.
    pub has_environment: bool,
    /// Settings of the client.
    pub settings: Vec<(String, String)>,
}

impl Credentials {
    /// Those of the environment.
    pub fn of_environment() -> Credentials {
        Credentials { has_environment: true, settings: vec![] }
    }
}

/// How long requests may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// As a whole.
    Request,
    /// For each part of an answer.
    Silence,
}

/// The client of a store. `bucket` is the container in Azure's; for HTTP it is the URL without its path.
pub(crate) fn connected(
    scheme: Scheme,
    bucket: &str,
    credentials: &Credentials,
    patience: Patience,
) -> Result<Arc<dyn ObjectStore>> {
    let connector = OneHost { patience, headers: headers(scheme, credentials)? };
    let Credentials { has_environment, settings } = credentials;
    // Google Cloud Storage speaks the protocol of S3 to those who have keys of that kind.
    let is_of_s3 = settings.iter().any(|(name, _)| name.starts_with("aws_"));
    Ok(match scheme {
        Scheme::Google if !is_of_s3 => {
            let mut builder =
                if *has_environment { GoogleCloudStorageBuilder::from_env() } else { GoogleCloudStorageBuilder::new() };
            for (key, value) in settings {
                builder = builder.with_config(GoogleConfigKey::from_str(key)?, value);
            }
            let builder = builder.with_bucket_name(bucket).with_http_connector(connector);
            Arc::new(builder.with_retry(retry()).build()?)
        }
        Scheme::Azure => {
            let mut builder =
                if *has_environment { MicrosoftAzureBuilder::from_env() } else { MicrosoftAzureBuilder::new() };
            for (key, value) in settings {
                builder = builder.with_config(AzureConfigKey::from_str(key)?, value);
            }
            let builder = builder.with_container_name(bucket).with_http_connector(connector);
            Arc::new(builder.with_retry(retry()).build()?)
        }
        Scheme::Http => {
            let options = ClientOptions::new().with_allow_http(true);
            let builder = HttpBuilder::new().with_url(bucket).with_client_options(options);
            Arc::new(builder.with_http_connector(connector).with_retry(retry()).build()?)
        }
        _ => {
            let mut builder = if *has_environment { AmazonS3Builder::from_env() } else { AmazonS3Builder::new() };
            for (key, value) in settings {
                builder = builder.with_config(AmazonS3ConfigKey::from_str(key)?, value);
            }
            let builder = builder.with_bucket_name(bucket).with_http_connector(connector);
            Arc::new(builder.with_retry(retry()).build()?)
        }
    })
}

/// Few repetitions within a request: callers repeat it, too.
fn retry() -> RetryConfig {
    let backoff = BackoffConfig { init_backoff: Duration::from_millis(50), ..BackoffConfig::default() };
    RetryConfig { backoff, max_retries: 3, retry_timeout: Duration::from_secs(30) }
}

/// The headers of all requests by HTTP, whose secrets have a token.
fn headers(scheme: Scheme, credentials: &Credentials) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    let token = credentials.settings.iter().find(|(name, _)| name == "bearer_token" && scheme == Scheme::Http);
    if let Some((_, token)) = token {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| Error::Generic { store: "HTTP", source: "BEARER_TOKEN is no token".into() })?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

/// Makes HTTP clients that follow redirects only within a host, so that no address inside a network is reached by an answer
/// from outside.
#[derive(Debug)]
struct OneHost {
    patience: Patience,
    headers: HeaderMap,
}

impl HttpConnector for OneHost {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        let is_plain = options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|value| value == "true");
        let builder = reqwest::Client::builder()
            .user_agent(concat!("freestone/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .https_only(!is_plain)
            .default_headers(self.headers.clone())
            .redirect(Policy::custom(within_one_host));
        let builder = match self.patience {
            Patience::Request => builder.timeout(REQUEST),
            Patience::Silence => builder.read_timeout(SILENCE),
        };
        let client = builder.build().map_err(|error| Error::Generic { store: "HTTP", source: Box::new(error) })?;
        Ok(HttpClient::new(client))
    }
}

fn within_one_host(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let Some(first) = attempt.previous().first() else { return attempt.follow() };
    let to = attempt.url();
    let is_same = first.host_str() == to.host_str()
        && first.port_or_known_default() == to.port_or_known_default()
        && first.scheme() == to.scheme();
    if !is_same {
        let text = format!("redirected to another host, {}", to.host_str().unwrap_or_default());
        return attempt.error(text);
    }
    if attempt.previous().len() > REDIRECTS { attempt.error("too many redirects") } else { attempt.follow() }
}
