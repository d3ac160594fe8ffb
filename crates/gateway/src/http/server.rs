use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::Gateway;
use crate::http::handle;
use crate::http::sites::Reach;

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEnd {
    /// All requests were answered.
    Drained,
    /// This many connections were cut.
    Cut(usize),
}

/// Answers requests on a listener until `end` is ready. Then no more are accepted, and those that are
/// being answered end first.
pub async fn serve(
    gateway: impl Into<Arc<Gateway>>,
    listener: TcpListener,
    end: impl Future<Output = ()> + Send + 'static,
) -> io::Result<ServerEnd> {
    serve_until(gateway.into(), listener, end, std::future::pending()).await
}

/// Answers requests on a listener until `end` is ready, and cuts what is left when `cut` is ready. What is cut
/// ends with an error.
pub(crate) async fn serve_until(
    gateway: Arc<Gateway>,
    listener: TcpListener,
    end: impl Future<Output = ()>,
    cut: impl Future<Output = ()>,
) -> io::Result<ServerEnd> {
    let closing = Arc::clone(&gateway);
    let limits = &gateway.limits;
    let mut http = http1::Builder::new();
    // The timer also ends connections without a request.
    http.timer(TokioTimer::new()).header_read_timeout(limits.head).max_header_size(limits.head_bytes);
    let places = Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS)));
    let reach = Reach::of(listener.local_addr()?);
    let router = Router::new().fallback(handle).with_state((gateway, reach));
    let service = TowerToHyperService::new(router);
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut end = std::pin::pin!(end);
    loop {
        let next = async {
            // Others wait in the system's queue. A place is free at the latest when a timer ends.
            let place = Arc::clone(&places).acquire_owned().await;
            (place, accept(&listener).await)
        };
        let (place, stream) = tokio::select! {
            next = next => next,
            () = &mut end => break,
        };
        let connection = http.serve_connection(TokioIo::new(stream), service.clone());
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            // Clients break connections as they like.
            let _ = connection.await;
            drop(place);
        });
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    let mut drained = std::pin::pin!(graceful.shutdown());
    let ended = tokio::select! {
        () = &mut drained => ServerEnd::Drained,
        () = cut => {
            while connections.try_join_next().is_some() {}
            let count = connections.len();
            closing.closing.begin();
            // A client may not read what it is sent.
            let _ = tokio::time::timeout(LAST_EVENT, drained).await;
            if count == 0 { ServerEnd::Drained } else { ServerEnd::Cut(count) }
        }
    };
    // One that is just being connected may take longer.
    let _ = tokio::time::timeout(LAST_SERVER, closing.servers.close()).await;
    Ok(ended)
}

/// Waits for a connection.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Tokens are small, and each is sent at once.
                let _ = stream.set_nodelay(true);
                return stream;
            }
            // The client left before it was accepted.
            Err(error) if is_of_client(&error) => {}
            // Too many files are open. They close with time.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// How long the errors of what is cut may take to be sent.
const LAST_EVENT: Duration = Duration::from_secs(1);

/// How long the servers of tools may take to end.
const LAST_SERVER: Duration = Duration::from_secs(4);

/// How long to wait after an error of the system.
const PAUSE: Duration = Duration::from_millis(100);

fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
