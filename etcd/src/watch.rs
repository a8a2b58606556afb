//! Watches: changes to keys as they happen. Do not rely on a watch alone, because it can become silent without an
//! error.

use std::time::Duration;

use tokio::sync::mpsc::{self, Sender};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::credentials::Credentials;
use crate::error::{Error, Kind};
use crate::member::Member;
use crate::message::{WatchCreateRequest, WatchRequest, WatchResponse};

/// A watch on keys. It ends when this value is dropped.
pub struct Watch {
    member: Box<str>,
    stream: Streaming<WatchResponse>,
    /// The sending half of the request stream: etcd keeps the watch until this stream is closed.
    _requests: Sender<WatchRequest>,
}

impl Watch {
    pub(crate) async fn begin(
        member: &Member,
        create: WatchCreateRequest,
        credentials: Option<&Credentials>,
        try_max: Duration,
    ) -> Result<Self, Error> {
        let (requests, messages) = mpsc::channel(1);
        // The channel has space for one message.
        let _ = requests.try_send(WatchRequest { create: Some(create) });
        let (path, messages) = ("/etcdserverpb.Watch/Watch", ReceiverStream::new(messages));
        let stream = member.streaming(path, messages, credentials, try_max).await?;
        let mut watch = Self { member: member.name.clone(), stream, _requests: requests };
        let first = member.in_time(try_max, watch.stream.message()).await?;
        watch.judge(first).map(|_| watch)
    }

    /// Returns the next message: one or more events, or a progress notification without events. After an error, the
    /// watch has ended.
    pub async fn next(&mut self) -> Result<WatchResponse, Error> {
        let message = self.stream.message().await;
        self.judge(message.map_err(|status| Error::of(&self.member, &status))?)
    }

    fn judge(&self, message: Option<WatchResponse>) -> Result<WatchResponse, Error> {
        let over = |kind, why: &str| Error::new(kind, &self.member, why);
        let message = message.ok_or_else(|| over(Kind::Unknown, "the watch has ended"))?;
        match message {
            WatchResponse { compact_revision: 1.., .. } => {
                Err(over(Kind::Compacted, "the watched revision was compacted"))
            }
            WatchResponse { canceled: true, .. } => {
                Err(over(Kind::Unknown, &format!("the watch has ended: {}", message.cancel_reason)))
            }
            message => Ok(message),
        }
    }
}
