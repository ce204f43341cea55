//! Arrow Flight as workers and coordinators speak it: two of its calls, and what all of them share.

use std::pin::Pin;

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse,
    PollInfo, PutResult, SchemaResult, Ticket,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::Stream;
use tonic::{Request, Response, Status, Streaming};

use crate::token::{Token, now_ms};

pub(crate) type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What a process of a cluster answers. The signature of each request has been checked, and the rights of each task.
#[async_trait]
pub(crate) trait Answering: Send + Sync + 'static {
    /// By what the database is known to which tasks have rights; `None` if there are no tasks.
    fn database(&self) -> Option<&str>;

    /// Runs the task of a ticket.
    async fn task(&self, ticket: &[u8]) -> Result<Answers<FlightData>, Status>;

    /// Answers an action.
    async fn action(&self, kind: &str, body: &[u8]) -> Result<Vec<u8>, Status>;
}

/// The service over what answers.
pub(crate) struct Service<A> {
    pub token: Token,
    pub answering: A,
}

fn unknown<T>(call: &str) -> Result<Response<T>, Status> {
    Err(Status::unimplemented(format!("processes of a cluster do not answer {call}")))
}

#[async_trait]
impl<A: Answering> FlightService for Service<A> {
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListFlightsStream = Answers<FlightInfo>;
    type DoGetStream = Answers<FlightData>;
    type DoPutStream = Answers<PutResult>;
    type DoExchangeStream = Answers<FlightData>;
    type DoActionStream = Answers<arrow_flight::Result>;
    type ListActionsStream = Answers<ActionType>;

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        let Some(database) = self.answering.database() else { return unknown("DoGet") };
        let (metadata, _, Ticket { ticket }) = request.into_parts();
        self.token.check_task(&metadata, &ticket, (database, now_ms()))?;
        Ok(Response::new(self.answering.task(&ticket).await?))
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        let (metadata, _, action) = request.into_parts();
        self.token.check_action(&metadata, &action.r#type, &action.body)?;
        let body = self.answering.action(&action.r#type, &action.body).await?;
        let answer = arrow_flight::Result { body: Bytes::from(body) };
        Ok(Response::new(Box::pin(futures::stream::iter([Ok(answer)]))))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        unknown("Handshake")
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        unknown("ListFlights")
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        unknown("GetFlightInfo")
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        unknown("PollFlightInfo")
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        unknown("GetSchema")
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        unknown("DoPut")
    }

    async fn do_exchange(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoExchangeStream>, Status> {
        unknown("DoExchange")
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        unknown("ListActions")
    }
}
