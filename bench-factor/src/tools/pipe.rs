//! A TCP connection as another program's standard input and output: what `nc` does, without a process in
//! between that copies the bytes.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::PathBuf,
    process::Command,
};

use super::error::{ToolsError, io_error};

/// How the connection comes about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Role {
    /// The first peer that connects here is the one.
    Listen(SocketAddr),
    /// A peer listens here.
    Connect(SocketAddr),
}

/// Waits for the connection, then becomes `command`; returns only when that fails.
pub(crate) fn become_command(
    role: Role,
    mut command: Command,
) -> Result<std::convert::Infallible, ToolsError> {
    let connection = OwnedFd::from(connect(role)?);
    let other = connection
        .try_clone()
        .map_err(io_error("share the connection with", &PathBuf::from(command.get_program())))?;
    let program = command.get_program().to_string_lossy().into_owned();
    let source = command.stdin(other).stdout(connection).exec();
    Err(ToolsError::Start { program, source })
}

fn connect(role: Role) -> Result<TcpStream, ToolsError> {
    let (action, address, connection) = match role {
        Role::Listen(address) => (
            "accept a connection on",
            address,
            TcpListener::bind(address).and_then(|listener| Ok(listener.accept()?.0)),
        ),
        Role::Connect(address) => ("connect to", address, TcpStream::connect(address)),
    };
    connection.map_err(|source| ToolsError::Io { action, path: address.to_string().into(), source })
}
