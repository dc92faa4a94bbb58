//! The source: waits for a target, listens with the settings that it asks for, sends, and accounts for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use ketch_channel::{ChannelSettings, TransportKind};
use ketch_protocol::limits::CONNECTIONS;
use libp2p_core::muxing::SubstreamBox;
use libp2p_identity::{Keypair, PeerId};
use tokio::{
    task::JoinSet,
    time::{Duration, sleep, timeout},
};

use super::{
    account::{Account, ConnectionAccount, ProcessorTime},
    condition::Condition,
    connection::Connection,
    control::{self, Answer, Ask, CellId, greet},
    ends::{Ends, SettingUp},
    error::{StudyError, Trouble, io_error},
    limits::{ANSWER_TIMEOUT, ARRIVAL_TIMEOUT, DRAIN_TIMEOUT, PORT_TIMEOUT, REASON_TIMEOUT},
    manifest::{Manifest, SourceFile, Summary},
    reading::SharedQueue,
    request, sending,
    sockets::Sockets,
};

/// What `bench-factor serve` was asked for.
#[derive(Debug)]
pub(crate) struct Options {
    /// The tree.
    pub(crate) data: PathBuf,
    /// Where TCP and UDP are listened on.
    pub(crate) listen: SocketAddr,
    /// End after one observation.
    pub(crate) once: bool,
}

/// Reads the tree and serves one observation after the other; what happens is written to `out`. Ends only after a single
/// observation, or when nothing more can be served.
pub(crate) async fn serve(options: &Options, out: &mut impl io::Write) -> Result<(), StudyError> {
    let mut source = Source::open(&options.data, options.listen, super::BUILD)?;
    let mut last: Option<Control> = None;
    loop {
        let mut ends = source.listen().await?;
        if let Some(last) = last.take() {
            last.close().await;
        }
        let Summary { files, bytes, sha256, .. } = &source.manifest.summary;
        say(out, &format!("serving {files} files, {bytes} bytes, {sha256}, on {}", source.address))?;
        let (mut control, condition) = loop {
            match source.arrange(&mut ends).await {
                Ok(arranged) => break arranged,
                Err(error) => say(out, &format!("turned away: {error}"))?,
            }
        };
        // The data connections come to the same port.
        drop(ends);
        let observed = source.observe(&mut control, condition).await;
        if options.once {
            control.close().await;
            observed.map_err(StudyError::Broken)?;
            return say(out, &format!("sent: {condition}"));
        }
        match observed {
            Ok(()) => say(out, &format!("sent: {condition}"))?,
            Err(trouble) => say(out, &format!("broke off: {condition}: {trouble}"))?,
        }
        last = Some(control);
    }
}

fn say(out: &mut impl io::Write, line: &str) -> Result<(), StudyError> {
    let written = writeln!(out, "{line}").and_then(|()| out.flush());
    written.map_err(io_error("write to", Path::new("standard output")))
}

/// One tree, and the port at which it is to be had.
#[derive(Debug)]
pub(super) struct Source {
    identity: Keypair,
    root: PathBuf,
    pub(super) manifest: Manifest,
    pub(super) files: Arc<Vec<SourceFile>>,
    pub(super) address: SocketAddr,
    /// What this end was built from.
    build: &'static str,
}

/// The connection on which everything is arranged. The target stays on it until the source closes it, which it does once it
/// can be asked again.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) connection: Connection,
    stream: SubstreamBox,
}

impl Source {
    /// Reads the tree.
    pub(super) fn open(root: &Path, address: SocketAddr, build: &'static str) -> Result<Self, StudyError> {
        let mut manifest = Manifest::read(root)?;
        let files = Arc::new(std::mem::take(&mut manifest.files));
        let identity = Keypair::generate_ed25519();
        Ok(Self { identity, root: root.to_owned(), manifest, files, address, build })
    }

    /// Listens for a control connection; a port of 0 becomes the one that the system gives.
    pub(super) async fn listen(&mut self) -> Result<Ends, StudyError> {
        let mut ends = Ends::new(&self.identity, ChannelSettings::default())?;
        self.address = ends.listen(self.address, TransportKind::Tcp, Duration::ZERO).await?;
        Ok(ends)
    }

    /// Takes a target of the same build, and hears what it asks for.
    pub(super) async fn arrange(&self, ends: &mut Ends) -> Result<(Control, Condition), StudyError> {
        let setting_up = ends.accept().await;
        let arranging = async {
            let mut connection = setting_up.await.map_err(StudyError::Control)?;
            let mut stream = connection.arrivals.next().await.map_err(StudyError::Control)?;
            greet(&mut stream, self.build).await?;
            let Ask { condition } = control::receive(&mut stream).await?;
            Ok((Control { connection, stream }, condition))
        };
        timeout(ANSWER_TIMEOUT, arranging)
            .await
            .unwrap_or_else(|_| Err(StudyError::Control(io::ErrorKind::TimedOut.into())))
    }

    /// Serves one observation, and tells the target how it went.
    pub(super) async fn observe(&self, control: &mut Control, condition: Condition) -> Result<(), Trouble> {
        let peer = control.connection.peer;
        let (mut ends, cell) = self.begin(control, condition).await?;
        let sockets = Sockets::start();
        let transfer = self.transfer(&mut ends, cell, peer, condition, &sockets);
        let sent = control.accompany(transfer, &sockets).await;
        match sent {
            Ok((account, connections)) => {
                let told = control.conclude(account, &self.manifest.text).await;
                drop(connections);
                told
            }
            Err(trouble) => {
                // The target may have gone, and is the first to know then.
                if control.say(&Answer::Broken(trouble.clone().into())).await.is_ok() {
                    control.await_end(REASON_TIMEOUT).await;
                }
                Err(trouble)
            }
        }
    }

    /// Listens with what is asked for and tells the target, or says why not.
    pub(super) async fn begin(
        &self,
        control: &mut Control,
        condition: Condition,
    ) -> Result<(Ends, CellId), Trouble> {
        match self.prepare(condition).await {
            Ok(ends) => {
                let cell: CellId = std::array::from_fn(|_| fastrand::u8(..));
                control.say(&Answer::Ready { cell, data: self.manifest.summary.clone() }).await?;
                Ok((ends, cell))
            }
            Err(reason) => {
                control.say(&Answer::Refused(reason.clone())).await?;
                control.await_end(REASON_TIMEOUT).await;
                Err(Trouble::Failed(reason))
            }
        }
    }

    async fn prepare(&self, condition: Condition) -> Result<Ends, String> {
        let Condition { connections, transport, controller, .. } = condition;
        if !(1..=CONNECTIONS).contains(&connections) {
            return Err(format!("{connections} connections are asked for, 1 to {CONNECTIONS} are possible"));
        }
        controller.check(transport)?;
        let mut ends = Ends::new(&self.identity, condition.settings()).map_err(|error| error.to_string())?;
        let listening = ends.listen(self.address, transport, PORT_TIMEOUT).await;
        listening.map_err(|error| error.to_string())?;
        Ok(ends)
    }

    /// Takes the data connections as they come and sends by each at once; ends when all that they carried was
    /// acknowledged.
    async fn transfer(
        &self,
        ends: &mut Ends,
        cell: CellId,
        peer: PeerId,
        condition: Condition,
        sockets: &Sockets,
    ) -> Result<(Account, Vec<Connection>), Trouble> {
        let processor = ProcessorTime::now();
        let queue = Arc::new(SharedQueue::new(self.root.clone(), self.files.clone()));
        let wanted = usize::from(condition.connections);
        let (mut joining, mut sending) = (JoinSet::new(), JoinSet::new());
        let mut numbers = BTreeSet::new();
        let mut done = BTreeMap::new();
        let late = sleep(ARRIVAL_TIMEOUT);
        tokio::pin!(late);
        while done.len() < wanted {
            let is_waiting = numbers.len() < wanted;
            tokio::select! {
                setting_up = ends.accept(), if is_waiting => drop(joining.spawn(join(setting_up, cell, peer))),
                Some(joined) = joining.join_next(), if is_waiting => match joined {
                    Ok(Ok(joined)) if numbers.insert(joined.number) => {
                        sockets.add(joined.number, &joined.connection.gauge);
                        sending.spawn(serve_connection(joined, queue.clone(), condition));
                    }
                    // Whoever else comes to the port is turned away, and the deadline holds for those that are awaited.
                    Ok(Ok(_) | Err(_)) | Err(_) => {}
                },
                Some(sent) = sending.join_next() => {
                    let sent = sent.map_err(|error| Trouble::failed("sending", &error))??;
                    done.insert(sent.number, (sent.account, sent.connection));
                }
                () = &mut late, if is_waiting => {
                    let came = numbers.len();
                    return Err(Trouble::Aborted(format!("{came} of {wanted} connections came in time")));
                }
            }
        }
        let (accounts, connections) = done.into_values().unzip();
        Ok((processor.account(accounts)?, connections))
    }
}

impl Control {
    pub(super) async fn say(&mut self, answer: &Answer) -> Result<(), Trouble> {
        let sent = control::send(&mut self.stream, answer).await;
        sent.map_err(|error| Trouble::failed("answering the target", &error))
    }

    /// Does `transfer`, and tells the target meanwhile what the data connections do. Ends early when the target is gone.
    async fn accompany<T>(
        &mut self,
        transfer: impl Future<Output = Result<T, Trouble>>,
        sockets: &Sockets,
    ) -> Result<T, Trouble> {
        let mut ticks = Sockets::ticks();
        tokio::pin!(transfer);
        loop {
            tokio::select! {
                sent = &mut transfer => return sent,
                error = self.connection.arrivals.next() => return Err(gone(error)),
                // What is being said is said to its end, as half a message would spoil those behind it.
                _ = ticks.tick() => {
                    let said = timeout(ANSWER_TIMEOUT, self.say(&Answer::Sockets(sockets.look()))).await;
                    said.map_err(|_| Trouble::Aborted("the target hears nothing any more".into()))??;
                }
            }
        }
    }

    /// Says what the target needs to judge the copy, and waits until it has that.
    async fn conclude(&mut self, account: Account, manifest: &str) -> Result<(), Trouble> {
        self.say(&Answer::Account(account)).await?;
        let tell = async {
            self.stream.write_all(manifest.as_bytes()).await?;
            self.stream.close().await
        };
        tell.await.map_err(Trouble::stream("sending the manifest"))?;
        self.await_end(ANSWER_TIMEOUT).await;
        Ok(())
    }

    /// Waits until the target says that it has heard everything, or is gone; but not for ever.
    pub(super) async fn await_end(&mut self, limit: Duration) {
        // A target that stays is left behind.
        let _ = timeout(limit, self.stream.read(&mut [0])).await;
    }

    /// Lets the target go.
    async fn close(self) {
        // It may be gone.
        let _ = self.connection.close(DRAIN_TIMEOUT).await;
    }
}

/// The target opens no second stream on its control connection.
fn gone(next: io::Result<SubstreamBox>) -> Trouble {
    match next {
        Ok(_) => Trouble::Failed("the target opened another control stream".into()),
        Err(error) => Trouble::lost("the target is gone", &error),
    }
}

/// A data connection of the observation.
pub(super) struct Joined {
    pub(super) connection: Connection,
    pub(super) stream: SubstreamBox,
    number: u8,
}

/// Waits until a connection has said that it belongs to the observation.
pub(super) async fn join(setting_up: SettingUp, cell: CellId, peer: PeerId) -> Result<Joined, Trouble> {
    let mut connection = setting_up.await.map_err(Trouble::stream("accepting a connection"))?;
    if connection.peer != peer {
        return Err(Trouble::Failed("a connection comes from another peer".into()));
    }
    let (stream, number) = request::accept(&mut connection.arrivals, cell).await?;
    Ok(Joined { connection, stream, number })
}

/// A data connection that has done its part.
struct Done {
    connection: Connection,
    number: u8,
    account: ConnectionAccount,
}

/// Sends by one connection, until what it carried was acknowledged.
async fn serve_connection(
    joined: Joined,
    queue: Arc<SharedQueue>,
    condition: Condition,
) -> Result<Done, Trouble> {
    let Joined { connection, mut stream, number } = joined;
    let (sent, recycling) = sending::send(&connection.opener, &queue, condition).await?;
    request::say(&mut stream, sent).await?;
    let taken = request::hear(&mut stream).await?;
    if taken != sent {
        return Err(Trouble::Failed(format!("the target has {taken} of {sent} by one connection")));
    }
    recycling.finish().await?;
    // The target may leave with the acknowledgement.
    let account = ConnectionAccount::read(&connection.gauge, condition, sent)?;
    request::acknowledge(&mut stream).await?;
    Ok(Done { connection, number, account })
}
