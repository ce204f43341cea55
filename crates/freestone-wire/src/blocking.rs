//! The client for callers without a runtime: each connection has a small one of its own.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use tokio::runtime::Builder;

use crate::address::Address;
use crate::batch::Batch;
use crate::client::{self, CancelHandle, Prepared, Summary};
use crate::error::{Result, WireError};
use crate::threads::Threads;

/// As [`client::Client`].
#[derive(Debug)]
pub struct Client {
    // Declared before the runtime, so that it is dropped first.
    client: client::Client,
    runtime: Arc<Threads>,
}

impl Client {
    /// As [`client::Client::connect`].
    ///
    /// # Errors
    /// As for [`client::Client::connect`].
    pub fn connect(address: &str) -> Result<Self> {
        Self::connect_to(Address::parse(address)?)
    }

    /// As [`client::Client::connect_to`].
    ///
    /// # Errors
    /// As for [`client::Client::connect_to`].
    pub fn connect_to(address: Address) -> Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(address.streams.min(4)).max_blocking_threads(address.threads + 2);
        let runtime = Threads::of(builder.thread_name("freestone-client"));
        let runtime = runtime.map_err(WireError::io("cannot start threads"))?;
        let client = runtime.block_on(client::Client::connect_to(address))?;
        Ok(Self { client, runtime })
    }

    /// The asynchronous client.
    pub fn client(&self) -> &client::Client {
        &self.client
    }

    /// As [`client::Client::query`].
    ///
    /// # Errors
    /// As for [`client::Client::query`].
    pub fn query(&self, sql: &str, parameters: Option<&RecordBatch>) -> Result<ResultStream> {
        let stream = self.runtime.block_on(self.client.query(sql, parameters))?;
        Ok(self.stream(stream))
    }

    /// As [`client::Client::prepare`].
    ///
    /// # Errors
    /// As for [`client::Client::prepare`].
    pub fn prepare(&self, sql: &str) -> Result<Prepared> {
        self.runtime.block_on(self.client.prepare(sql))
    }

    /// As [`client::Client::execute`].
    ///
    /// # Errors
    /// As for [`client::Client::execute`].
    pub fn execute(&self, statement: &Prepared, parameters: Option<&RecordBatch>) -> Result<ResultStream> {
        let stream = self.runtime.block_on(self.client.execute(statement, parameters))?;
        Ok(self.stream(stream))
    }

    fn stream(&self, stream: client::ResultStream) -> ResultStream {
        ResultStream { stream: Some(stream), runtime: self.runtime.clone() }
    }

    /// As [`client::Client::upload`], with all rows at once.
    ///
    /// # Errors
    /// As for [`client::Client::upload`], or the error of a batch.
    pub fn upload<B: Into<Batch>>(
        &self,
        target: &str,
        schema: &Schema,
        batches: impl IntoIterator<Item = Result<B>>,
    ) -> Result<Summary> {
        let mut upload = self.runtime.block_on(self.client.upload(target, schema))?;
        for batch in batches {
            // Outside the runtime, so that the iterator may use results of this client.
            let sent = batch.and_then(|batch| self.runtime.block_on(upload.send(batch)));
            if let Err(error) = sent {
                let _runtime = self.runtime.enter();
                drop(upload);
                return Err(error);
            }
        }
        self.runtime.block_on(upload.finish())
    }

    /// A handle that cancels the connection's statement from any thread.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.client.cancel_handle()
    }

    /// Cancels the connection's statement, and waits until the request is sent.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn cancel(&self) -> Result<()> {
        self.runtime.block_on(self.client.cancel_handle().cancel())
    }
}

/// As [`client::ResultStream`], as an iterator of batches.
#[derive(Debug)]
pub struct ResultStream {
    stream: Option<client::ResultStream>,
    runtime: Arc<Threads>,
}

impl ResultStream {
    /// As [`client::ResultStream::schema`].
    ///
    /// # Errors
    /// As for [`client::ResultStream::schema`].
    pub fn schema(&mut self) -> Result<SchemaRef> {
        match &mut self.stream {
            Some(stream) => self.runtime.block_on(stream.schema()),
            None => Ok(Arc::new(Schema::empty())),
        }
    }

    /// As [`client::ResultStream::summary`].
    pub fn summary(&self) -> Option<&Summary> {
        self.stream.as_ref().and_then(client::ResultStream::summary)
    }
}

impl Iterator for ResultStream {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.runtime.block_on(self.stream.as_mut()?.next()).transpose()
    }
}

impl Drop for ResultStream {
    fn drop(&mut self) {
        // A stream that is dropped early sends a message, for which it has to be within the runtime.
        let _runtime = self.runtime.enter();
        self.stream = None;
    }
}
