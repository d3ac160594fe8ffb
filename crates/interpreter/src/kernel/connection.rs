use std::path::Path;
use std::time::Duration;

use jupyter_protocol::messaging::{ExecuteRequest, ExecutionState, InterruptRequest, KernelInfoRequest};
use jupyter_protocol::{ConnectionInfo, JupyterMessage, JupyterMessageContent};
use jupyter_zmq_client::RuntimeError;
use jupyter_zmq_client::connection::{
    DealerSendConnection, create_client_control_connection, create_client_iopub_connection,
    create_client_shell_connection_with_identity, peer_identity_for_session,
};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::Error;

/// The channels of a kernel.
pub(super) struct Connection {
    shell: DealerSendConnection,
    control: DealerSendConnection,
    /// What the kernel publishes.
    published: mpsc::Receiver<JupyterMessage>,
}

/// The numbers of the sockets that are used.
pub(super) const CHANNELS: [u16; 3] = [1, 2, 4];

/// Returns where the sockets of a kernel are, with a path before their numbers.
pub(super) fn info(prefix: &Path, key: &str) -> ConnectionInfo {
    ConnectionInfo {
        ip: prefix.display().to_string(),
        transport: jupyter_protocol::connection_info::Transport::IPC,
        shell_port: 1,
        iopub_port: 2,
        stdin_port: 3,
        control_port: 4,
        hb_port: 5,
        key: key.to_owned(),
        signature_scheme: "hmac-sha256".to_owned(),
        kernel_name: None,
    }
}

impl Connection {
    /// Connects, and waits until the kernel answers and what it publishes arrives.
    pub async fn open(info: &ConnectionInfo) -> Result<Connection, Error> {
        let session = uuid::Uuid::new_v4().simple().to_string();
        let failed = |error: RuntimeError| Error::Start(error.to_string());
        let identity = peer_identity_for_session(&session).map_err(failed)?;
        let iopub = create_client_iopub_connection(info, "", &session).await.map_err(failed)?;
        let shell = create_client_shell_connection_with_identity(info, &session, identity).await.map_err(failed)?;
        let control = create_client_control_connection(info, &session).await.map_err(failed)?;
        let (shell, mut answers) = shell.split();
        let (control, mut controlled) = control.split();
        let (publish, published) = mpsc::channel(64);
        // Each is read by a task of its own, since a message must be read to its end.
        tokio::spawn(async move { while answers.read().await.err().is_none_or(|error| is_passing(&error)) {} });
        tokio::spawn(async move { while controlled.read().await.err().is_none_or(|error| is_passing(&error)) {} });
        let mut iopub = iopub;
        tokio::spawn(async move {
            loop {
                match iopub.read().await {
                    Ok(message) => {
                        if publish.send(message).await.is_err() {
                            return;
                        }
                    }
                    Err(error) if is_passing(&error) => {}
                    Err(_) => return,
                }
            }
        });
        let mut connection = Connection { shell, control, published };
        // What it published before the subscription arrived is lost, so it is asked until something comes.
        loop {
            connection.shell.send(KernelInfoRequest {}.into()).await.map_err(failed)?;
            match timeout(Duration::from_millis(100), connection.published.recv()).await {
                Ok(Some(_)) => break,
                Ok(None) => return Err(Error::Start("its connection was closed".into())),
                Err(_) => {}
            }
        }
        // The first code that a kernel runs takes it ten times as long.
        let first = ExecuteRequest { silent: true, store_history: false, ..ExecuteRequest::new("1".to_owned()) };
        let id = connection.send(first).await.map_err(|error| Error::Start(error.to_string()))?;
        loop {
            match connection.next(&id).await {
                Some(JupyterMessageContent::Status(status)) if status.execution_state == ExecutionState::Idle => {
                    return Ok(connection);
                }
                Some(_) => {}
                None => return Err(Error::Start("its connection was closed".into())),
            }
        }
    }

    /// Sends code, and returns the id of the message.
    pub async fn execute(&mut self, code: &str) -> Result<String, Error> {
        self.send(ExecuteRequest::new(code.to_owned())).await
    }

    async fn send(&mut self, request: ExecuteRequest) -> Result<String, Error> {
        let message: JupyterMessage = request.into();
        let id = message.header.msg_id.clone();
        self.shell.send(message).await.map_err(|error| Error::Died(error.to_string()))?;
        Ok(id)
    }

    /// Asks the kernel to interrupt what it runs. One that cannot is ended later.
    pub async fn interrupt(&mut self) {
        let _ = timeout(Duration::from_millis(500), self.control.send(InterruptRequest {}.into())).await;
    }

    /// Returns the next message that belongs to the call with this id. Others are left out.
    pub async fn next(&mut self, id: &str) -> Option<JupyterMessageContent> {
        loop {
            let message = self.published.recv().await?;
            if message.parent_header.is_some_and(|parent| parent.msg_id == id) {
                return Some(message.content);
            }
        }
    }
}

/// Reports whether the next message can still be read. One that nobody understands is no reason to end: code can send
/// any.
fn is_passing(error: &RuntimeError) -> bool {
    !matches!(error, RuntimeError::ZmqError(_))
}
