//! Structured logs on standard error. They never hold passwords, statements' texts or values.

use tracing_subscriber::EnvFilter;

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// What is logged unless the environment variable `FREESTONE_LOG` says otherwise.
const FILTER: &str = "warn,freestone_server=info";

/// Sends the process' log to standard error. Does nothing where a log is set up already.
pub fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_env("FREESTONE_LOG").unwrap_or_else(|_| EnvFilter::new(FILTER));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let _ = match format {
        LogFormat::Text => builder.with_ansi(false).with_target(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}
