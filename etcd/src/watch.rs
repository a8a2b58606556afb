//! What happens to keys, as it happens. Nobody may rely on it alone: a watch may be silent without an error.

use std::time::Duration;

use tokio::sync::mpsc::{self, Sender};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::credentials::Credentials;
use crate::error::{Error, Kind};
use crate::member::Member;
use crate::message::{WatchCreateRequest, WatchRequest, WatchResponse};

/// A watch that has begun. It ends when this is dropped.
pub struct Watch {
    member: Box<str>,
    stream: Streaming<WatchResponse>,
    /// etcd ends the watch when nothing more can be asked, and not before: with this.
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
        // There is room for one.
        let _ = requests.try_send(WatchRequest { create: Some(create) });
        let (path, messages) = ("/etcdserverpb.Watch/Watch", ReceiverStream::new(messages));
        let stream = member.streaming(path, messages, credentials, try_max).await?;
        let mut watch = Self { member: member.name.clone(), stream, _requests: requests };
        let first = member.in_time(try_max, watch.stream.message()).await?;
        watch.judge(first).map(|_| watch)
    }

    /// What happened next: a few events of one revision or more, or the news that nothing did. After an error it is
    /// over.
    pub async fn next(&mut self) -> Result<WatchResponse, Error> {
        let message = self.stream.message().await;
        self.judge(message.map_err(|status| Error::of(&self.member, &status))?)
    }

    fn judge(&self, message: Option<WatchResponse>) -> Result<WatchResponse, Error> {
        let over = |kind, why: &str| Error::new(kind, &self.member, why);
        let message = message.ok_or_else(|| over(Kind::Unknown, "the watch has ended"))?;
        match message {
            WatchResponse { compact_revision: 1.., .. } => {
                Err(over(Kind::Compacted, "what was to be watched was compacted"))
            }
            WatchResponse { canceled: true, .. } => {
                Err(over(Kind::Unknown, &format!("the watch has ended: {}", message.cancel_reason)))
            }
            message => Ok(message),
        }
    }
}
