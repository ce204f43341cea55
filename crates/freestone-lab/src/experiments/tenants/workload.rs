//! Users that run query flights one after the other, without pause, and what is measured of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::row::{RowConverter, SortField};
use freestone_data::queries::ssb_queries;
use freestone_demo::engine::{Answer, hash};
use freestone_wire::client::Client;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::interrupt;
use crate::error::{LabError, Result};

/// The number of the benchmark's queries.
pub const QUERIES: usize = 13;
/// The queries of each flight, by position.
pub const FLIGHTS: [&[usize]; 4] = [&[0, 1, 2], &[3, 4, 5], &[6, 7, 8, 9], &[10, 11, 12]];
/// The time after which a client without an answer counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// A tenant, as clients reach it.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The address of the server.
    pub address: String,
    /// The texts of the 13 queries.
    pub queries: Arc<Vec<String>>,
    /// The answers that this tenant's rows have.
    pub answers: Arc<Vec<(u64, u64)>>,
    /// The name of the tenant, for errors.
    pub name: String,
}

/// What the users of all tenants saw in one window of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// The length of the window.
    pub seconds: f64,
    /// The response times of the queries that ended in the window, in milliseconds, ascending.
    pub times_ms: Vec<f32>,
    /// The number of queries by their position in the benchmark.
    pub counts: [u64; QUERIES],
    /// The sum of their response times.
    pub sums_ms: [f64; QUERIES],
}

/// One query that ended: its position, when it was sent, and when its last batch came.
type Ended = (usize, Instant, Instant);

/// The texts of the queries for a tenant with a schema of its own, or for one with a database of its own.
pub fn queries_of(schema: Option<&str>) -> Vec<String> {
    ssb_queries().iter().map(|(_, sql)| qualified(sql, schema)).collect()
}

/// `sql` with each table of FROM in `schema`.
fn qualified(sql: &str, schema: Option<&str>) -> String {
    let Some(schema) = schema else { return sql.to_owned() };
    let line = |line: &str| match line.strip_prefix("FROM ") {
        Some(tables) => {
            let tables: Vec<String> = tables.split(", ").map(|table| format!("{schema}.{table}")).collect();
            format!("FROM {}", tables.join(", "))
        }
        None => line.to_owned(),
    };
    sql.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Runs `users` per endpoint for a warm-up and a window, and checks each answer. `at_start` and `at_end` are called at
/// the window's ends.
///
/// # Errors
/// A connection fails, an answer differs, a client hangs, or the run is interrupted.
pub fn run(
    endpoints: &[Endpoint],
    users: usize,
    [warm_up, window]: [Duration; 2],
    mut at: impl FnMut(Edge),
) -> Result<Seen> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| LabError::Broken(format!("cannot start threads for clients: {error}")))?;
    let seen = runtime.block_on(async {
        let mut tasks = JoinSet::new();
        let begin = Instant::now();
        let (opens, closes) = (begin + warm_up, begin + warm_up + window);
        for (tenant, endpoint) in endpoints.iter().enumerate() {
            for user in 0..users {
                let seed = (tenant * 1000 + user) as u64;
                tasks.spawn(fly(endpoint.clone(), seed, closes));
            }
        }
        let ended = edges(&mut tasks, opens, closes, &mut at).await?;
        Ok(Seen::of(&ended, opens, closes))
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    seen
}

/// The two ends of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    Opens,
    Closes,
}

/// Waits for all users, and tells when the window opens and closes.
async fn edges(
    tasks: &mut JoinSet<Result<Vec<Ended>>>,
    opens: Instant,
    closes: Instant,
    at: &mut impl FnMut(Edge),
) -> Result<Vec<Ended>> {
    let mut all = vec![];
    let mut due = vec![(closes, Edge::Closes), (opens, Edge::Opens)];
    let hung = closes + PATIENCE + Duration::from_secs(5);
    loop {
        let next = due.last().map_or(hung, |(time, _)| *time).min(Instant::now() + Duration::from_millis(100));
        tokio::select! {
            joined = tasks.join_next() => match joined {
                Some(Ok(ended)) => all.extend(ended?),
                Some(Err(error)) => return Err(LabError::Broken(format!("a client ended: {error}"))),
                None if due.is_empty() => return Ok(all),
                None => tokio::time::sleep_until(next.into()).await,
            },
            () = tokio::time::sleep_until(next.into()) => {}
        }
        interrupt::check()?;
        while let Some((_, edge)) = due.pop_if(|(time, _)| *time <= Instant::now()) {
            at(edge);
        }
    }
}

/// One user: flights in random order until the window closes.
async fn fly(endpoint: Endpoint, seed: u64, closes: Instant) -> Result<Vec<Ended>> {
    let client = connect(&endpoint).await?;
    let mut random = StdRng::seed_from_u64(seed);
    let mut ended = vec![];
    while Instant::now() < closes {
        let mut order = [0, 1, 2, 3];
        for last in (1..order.len()).rev() {
            order.swap(last, random.random_range(0..=last));
        }
        for flight in order.map(|at| FLIGHTS[at]) {
            if Instant::now() >= closes {
                break;
            }
            run_flight(&client, &endpoint, flight, |query| ended.push(query)).await?;
        }
    }
    client.close().await;
    Ok(ended)
}

/// The queries of one flight on one snapshot, each compared with the tenant's answer.
async fn run_flight(client: &Client, endpoint: &Endpoint, flight: &[usize], mut each: impl FnMut(Ended)) -> Result<()> {
    query(client, endpoint, "BEGIN READ ONLY").await?;
    for &at in flight {
        let sent = Instant::now();
        let batches = query(client, endpoint, &endpoint.queries[at]).await?;
        each((at, sent, Instant::now()));
        let answer = answer_of(&batches)?;
        let expected = endpoint.answers[at];
        if (answer.rows, answer.checksum) != expected {
            return Err(LabError::Answers(format!(
                "{} answered {} with {answer} and not, as alone, with {:016x} ({} rows)",
                endpoint.name,
                ssb_queries()[at].0,
                expected.1,
                expected.0
            )));
        }
    }
    query(client, endpoint, "COMMIT").await?;
    Ok(())
}

async fn connect(endpoint: &Endpoint) -> Result<Client> {
    let connected = tokio::time::timeout(PATIENCE, Client::connect(&endpoint.address)).await;
    match connected {
        Ok(client) => client.map_err(|error| LabError::Broken(format!("{}: {error}", endpoint.name))),
        Err(_) => Err(hangs(&endpoint.name, "connecting")),
    }
}

async fn query(client: &Client, endpoint: &Endpoint, sql: &str) -> Result<Vec<RecordBatch>> {
    let rows = async { client.query(sql, None).await?.collect().await };
    match tokio::time::timeout(PATIENCE, rows).await {
        Ok(batches) => batches.map_err(|error| LabError::Broken(format!("{}: {error}", endpoint.name))),
        Err(_) => Err(hangs(&endpoint.name, sql.lines().next().unwrap_or(sql))),
    }
}

fn hangs(name: &str, what: &str) -> LabError {
    LabError::Broken(format!("{name}: a client got no answer for {} s ({what})", PATIENCE.as_secs()))
}

/// One connection, for what is asked outside of measurements.
pub struct Asker {
    runtime: tokio::runtime::Runtime,
    client: Option<Client>,
    endpoint: Endpoint,
}

impl Asker {
    /// # Errors
    /// The server cannot be reached.
    pub fn connect(endpoint: &Endpoint) -> Result<Asker> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| LabError::Broken(format!("cannot start a client's threads: {error}")))?;
        let client = Some(runtime.block_on(connect(endpoint))?);
        Ok(Asker { runtime, client, endpoint: endpoint.clone() })
    }

    /// # Errors
    /// The statement fails, or is not answered.
    pub fn ask(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        let Some(client) = &self.client else { return Ok(vec![]) };
        self.runtime.block_on(query(client, &self.endpoint, sql))
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            self.runtime.block_on(client.close());
        }
    }
}

/// The multiset checksum of an answer's rows, as [`freestone_demo::engine::Engine::answer`] has it.
pub fn answer_of(batches: &[RecordBatch]) -> Result<Answer> {
    let mut answer = Answer { rows: 0, checksum: 0 };
    let Some(first) = batches.first() else { return Ok(answer) };
    let wrong = |error: arrow::error::ArrowError| LabError::Answers(format!("rows cannot be compared: {error}"));
    let fields = first.schema().fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
    let converter = RowConverter::new(fields).map_err(wrong)?;
    for batch in batches {
        let rows = converter.convert_columns(batch.columns()).map_err(wrong)?;
        answer.rows += rows.num_rows() as u64;
        answer.checksum = rows.iter().map(|row| hash(row.as_ref())).fold(answer.checksum, u64::wrapping_add);
    }
    Ok(answer)
}

impl Seen {
    fn of(ended: &[Ended], opens: Instant, closes: Instant) -> Seen {
        let mut seen = Seen { seconds: (closes - opens).as_secs_f64(), ..Seen::default() };
        for (query, sent, end) in ended {
            if (opens..closes).contains(end) {
                let ms = (*end - *sent).as_secs_f64() * 1e3;
                seen.times_ms.push(ms as f32);
                seen.counts[*query] += 1;
                seen.sums_ms[*query] += ms;
            }
        }
        seen.times_ms.sort_by(f32::total_cmp);
        seen
    }

    /// Queries per second.
    pub fn throughput(&self) -> f64 {
        self.times_ms.len() as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// The mean response time in milliseconds; 0 without queries.
    pub fn mean_ms(&self) -> f64 {
        self.sums_ms.iter().sum::<f64>() / self.times_ms.len().max(1) as f64
    }

    /// The response time that a share of the queries does not exceed; 0 without queries.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        let at = (self.times_ms.len() as f64 * share).ceil() as usize;
        self.times_ms.get(at.clamp(1, self.times_ms.len().max(1)) - 1).map_or(0.0, |ms| f64::from(*ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flights_have_each_query_once() {
        let mut all: Vec<usize> = FLIGHTS.iter().flat_map(|flight| flight.iter().copied()).collect();
        all.sort_unstable();
        assert_eq!(all, (0..QUERIES).collect::<Vec<_>>());
        for (flight, queries) in FLIGHTS.iter().enumerate() {
            let names = queries.iter().map(|at| ssb_queries()[*at].0);
            assert!(names.into_iter().all(|name| name.starts_with(&format!("q{}.", flight + 1))));
        }
    }

    #[test]
    fn tables_get_the_schema_of_their_tenant() {
        let sql = &queries_of(Some("tenant2"))[3];
        assert!(sql.contains("\nFROM tenant2.lineorder, tenant2.date, tenant2.part, tenant2.supplier\n"), "{sql}");
        let tables = |sql: &String| {
            sql.lines().filter(|line| line.starts_with("FROM ")).collect::<Vec<_>>().join("").replace("tenant2.", "")
        };
        for (sql, plain) in queries_of(Some("tenant2")).iter().zip(queries_of(None)) {
            assert!(sql.contains("tenant2.lineorder") && sql.contains("tenant2.date"), "{sql}");
            assert_eq!(tables(sql), tables(&plain));
        }
        assert_eq!(queries_of(None)[3], ssb_queries()[3].1);
    }

    #[test]
    fn only_queries_that_end_in_the_window_count() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let ended = [(0, at(0), at(50)), (1, at(90), at(110)), (1, at(110), at(150)), (2, at(190), at(210))];
        let seen = Seen::of(&ended, at(100), at(200));
        assert_eq!((seen.counts[0], seen.counts[1], seen.counts[2]), (0, 2, 0));
        assert_eq!((seen.throughput().round(), seen.mean_ms().round()), (20.0, 30.0));
        assert_eq!((seen.quantile_ms(0.5).round(), seen.quantile_ms(1.0).round()), (20.0, 40.0));
        let nothing = Seen::default();
        assert_eq!((nothing.mean_ms(), nothing.quantile_ms(0.95)), (0.0, 0.0));
    }
}
