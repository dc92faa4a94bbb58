//! The target: dials, asks, writes what comes, and holds the clock. One observation from the first question to the
//! verified copy.

use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{AsyncWriteExt as _, future::BoxFuture};
use ketch_channel::{ChannelSettings, SetupCause, SetupError, TransportKind};
use libp2p_core::muxing::SubstreamBox;
use libp2p_identity::{Keypair, PeerId};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};

use super::{
    account::{Account, ConnectionAccount, ProcessorTime},
    cell_report::{CellReport, FORMAT, Outcome, Progress, Times, mb_per_s},
    condition::Condition,
    connection::Connection,
    control::{self, Answer, Ask, CellId, greet},
    ends::{Ends, SettingUp},
    error::{StudyError, Trouble},
    libraries,
    limits::{
        ANSWER_TIMEOUT, DRAIN_TIMEOUT, MORE_LOOKS, PROGRESS_INTERVAL, REASON_TIMEOUT, SOCKETS_INTERVAL,
    },
    manifest::{Summary, verify},
    reading::Sent,
    receiving::{Writers, receive},
    request,
    sockets::{Sockets, SocketsSample},
    stopwatch::Stopwatch,
    writing::{Tally, Target},
};

/// What `bench-factor cell` was asked for.
#[derive(Debug)]
pub(crate) struct Options {
    /// Where the copy goes: a folder that is empty or not there.
    pub(crate) target: PathBuf,
    /// Where the source listens.
    pub(crate) peer: SocketAddr,
    pub(crate) condition: Condition,
    /// Parse what comes and keep nothing of it.
    pub(crate) discard: bool,
    /// When an observation is stopped.
    pub(crate) limit: Duration,
    /// When the process began.
    pub(crate) started: Instant,
}

/// Makes one observation. An error says that none was begun; whatever happens later is in the report.
pub(crate) async fn observe(options: &Options) -> Result<CellReport, StudyError> {
    observe_as(options, super::BUILD).await
}

/// The same for an end that was built from `build`.
pub(super) async fn observe_as(options: &Options, build: &str) -> Result<CellReport, StudyError> {
    let target = Arc::new(Target::open(&options.target, options.discard)?);
    let Condition { controller, transport, .. } = options.condition;
    controller.check(transport).map_err(StudyError::Channel)?;
    let identity = Keypair::generate_ed25519();
    let (control, cell, data) = Control::arrange(options, &identity, build).await?;
    let ends = Ends::new(&identity, options.condition.settings())?;
    let observation = Observation { options, target, cell, data, source: control.connection.peer };
    Ok(observation.make(ends, control).await)
}

/// The connection on which everything is arranged.
struct Control {
    connection: Connection,
    stream: SubstreamBox,
}

impl Control {
    /// Asks the source; returns once it listens for the data connections.
    async fn arrange(
        options: &Options,
        identity: &Keypair,
        build: &str,
    ) -> Result<(Self, CellId, Summary), StudyError> {
        let peer = options.peer;
        let unreachable =
            |error: io::Error| StudyError::Unreachable { peer, reason: ketch_channel::describe(&error) };
        let mut ends = Ends::new(identity, ChannelSettings::default())?;
        let dialing = ends.dial(peer, TransportKind::Tcp).map_err(unreachable)?;
        let connection = dialing.await.map_err(unreachable)?;
        let arranging = async {
            let mut stream = connection.opener.open().await.map_err(StudyError::Control)?;
            greet(&mut stream, build).await?;
            control::send(&mut stream, &Ask { condition: options.condition }).await?;
            match control::receive(&mut stream).await? {
                Answer::Ready { cell, data } => Ok((stream, cell, data)),
                Answer::Refused(reason) => Err(StudyError::Declined(reason)),
                Answer::Sockets(_) | Answer::Broken(_) | Answer::Account(_) => {
                    Err(StudyError::Violation("it answers an ask with what comes later"))
                }
            }
        };
        let (stream, cell, data) = timeout(ANSWER_TIMEOUT, arranging)
            .await
            .unwrap_or_else(|_| Err(StudyError::Control(io::ErrorKind::TimedOut.into())))?;
        Ok((Self { connection, stream }, cell, data))
    }
}

impl Control {
    /// Says that everything was heard, and waits until the source can be asked again; the copy is judged without it.
    async fn leave(mut self) {
        let leaving = async {
            self.stream.close().await?;
            loop {
                drop(self.connection.arrivals.next().await?);
            }
        };
        // A source that is gone ends it too, and one that stays is not waited for.
        let _: Result<io::Result<()>, _> = timeout(DRAIN_TIMEOUT, leaving).await;
    }
}

/// One observation that the source is ready for.
struct Observation<'a> {
    options: &'a Options,
    target: Arc<Target>,
    cell: CellId,
    data: Summary,
    source: PeerId,
}

/// What is known of an observation at its end.
#[derive(Default)]
struct Found {
    times: Times,
    ready: Duration,
    progress: Vec<Progress>,
    target: Account,
    source: Option<Account>,
    target_sockets: Vec<SocketsSample>,
    source_sockets: Vec<SocketsSample>,
}

/// Why there is no verified copy.
enum Stop {
    Trouble(Trouble),
    Limit,
}

impl<T: Into<Trouble>> From<T> for Stop {
    fn from(trouble: T) -> Self {
        Self::Trouble(trouble.into())
    }
}

/// A data connection that has done its part.
struct Fetched {
    number: u8,
    connection: Connection,
    sent: Sent,
    /// When the acknowledgement came, on the stopwatch.
    acknowledged: Duration,
}

impl Observation<'_> {
    async fn make(self, ends: Ends, mut control: Control) -> CellReport {
        let mut found = Found::default();
        let fetched = self.run(ends, &mut control.stream, &mut found).await;
        control.leave().await;
        let judged = match fetched {
            Ok(_) if self.options.discard => Ok(Outcome::Discarded),
            Ok(manifest) => self.judge(manifest, &mut found.times).await.map(|()| Outcome::Verified),
            Err(stop) => Err(stop),
        };
        let outcome = match judged {
            Ok(outcome) => outcome,
            Err(Stop::Limit) => Outcome::Censored { limit_s: self.options.limit.as_secs_f64() },
            Err(Stop::Trouble(trouble)) => trouble.into(),
        };
        let has_rate = matches!(outcome, Outcome::Verified | Outcome::Discarded);
        let Found { times, ready, progress, target, source, target_sockets, source_sockets } = found;
        CellReport {
            format: FORMAT,
            program: env!("CARGO_PKG_NAME").into(),
            build: super::BUILD.into(),
            lock: libraries::lock_sha256(),
            libraries: libraries::libraries(),
            condition: self.options.condition,
            asked: self.options.condition.asked(),
            peer: self.options.peer.to_string(),
            mb_per_s: if has_rate { mb_per_s(self.data.bytes, ready) } else { None },
            data: self.data,
            outcome,
            times,
            progress,
            target,
            source,
            target_sockets,
            source_sockets,
        }
    }

    /// Everything from the start of the stopwatch to the manifest by which the copy is judged.
    async fn run(&self, ends: Ends, control: &mut SubstreamBox, found: &mut Found) -> Result<String, Stop> {
        let processor = ProcessorTime::now();
        found.times.began_s = Some(self.options.started.elapsed().as_secs_f64());
        let stopwatch = Arc::new(Stopwatch::start());
        let (fetched, source) = {
            let looks = self.options.limit.as_secs() / SOCKETS_INTERVAL.as_secs() + MORE_LOOKS;
            let answering = answer(control, &mut found.source_sockets, looks);
            let mut answer = Answering(Some(Box::pin(answering)));
            let seen = (&mut found.progress, &mut found.target_sockets);
            match self.transfer(ends, &stopwatch, seen, &mut answer).await {
                Ok(transferred) => transferred,
                Err(stop) => {
                    // Without the connections, which may be lost.
                    found.target = processor.account(Vec::new())?;
                    return Err(reason(stop, &mut answer).await);
                }
            }
        };
        found.ready = stopwatch.ready();
        found.times.ready_s = Some(found.ready.as_secs_f64());
        let last = fetched.iter().map(|fetched| fetched.acknowledged).max().unwrap_or_default();
        found.times.acknowledged_s = Some(last.saturating_sub(found.ready).as_secs_f64());
        found.target = processor.account(self.accounts(&fetched)?)?;
        found.source = Some(self.checked(source)?);
        found.times.drain_s = Some(drain(fetched).await?.as_secs_f64());
        found.times.process_s = Some(self.options.started.elapsed().as_secs_f64());
        let manifest = control::receive_manifest(control, self.data.manifest_bytes).await;
        Ok(manifest.map_err(|error| Trouble::failed("hearing the manifest", &error))?)
    }

    /// Fetches by all connections within the limit, and hears the source's account.
    async fn transfer(
        &self,
        mut ends: Ends,
        stopwatch: &Arc<Stopwatch>,
        (progress, looks): (&mut Vec<Progress>, &mut Vec<SocketsSample>),
        answer: &mut Answering<'_>,
    ) -> Result<(Vec<Fetched>, Account), Stop> {
        let count = self.options.condition.connections;
        let tallies: Vec<_> = (0..count).map(|_| Arc::new(Tally::new(stopwatch.clone()))).collect();
        let sockets = Sockets::start();
        let mut fetching = JoinSet::new();
        for (number, tally) in (0..count).zip(&tallies) {
            let dialing = ends.dial(self.options.peer, self.options.condition.transport);
            let dialing = dialing.map_err(|error| connecting_failed(&error))?;
            fetching.spawn(self.fetch(dialing, number, tally.clone(), stopwatch.clone(), sockets.clone()));
        }
        let all = timeout(self.options.limit, collect(fetching, answer));
        let ended = tokio::select! {
            ended = all => ended.unwrap_or(Err(Stop::Limit)),
            () = sample(&tallies, stopwatch, progress) => Err(Stop::Limit),
            () = look(&sockets, looks) => Err(Stop::Limit),
        };
        progress.push(progress_now(&tallies, stopwatch));
        looks.push(sockets.look());
        ended
    }

    /// Fetches by one connection what the source sends on it.
    fn fetch(
        &self,
        dialing: SettingUp,
        number: u8,
        tally: Arc<Tally>,
        stopwatch: Arc<Stopwatch>,
        sockets: Sockets,
    ) -> impl Future<Output = Result<Fetched, Trouble>> + use<> {
        let (source, cell, lanes) = (self.source, self.cell, self.options.condition.lanes());
        let target = self.target.clone();
        async move {
            let mut connection = dialing.await.map_err(|error| connecting_failed(&error))?;
            if connection.peer != source {
                return Err(Trouble::Failed("another peer answered than before".into()));
            }
            sockets.add(number, &connection.gauge);
            let requested = request::request(&connection.opener, cell, number).await;
            let mut stream = requested.map_err(Trouble::stream("asking for content"))?;
            let writers = Writers::start(lanes, &target, &tally);
            let completing = async {
                let sent = complete(&mut stream, &tally).await?;
                acknowledged(&mut stream, sent).await?;
                Ok::<_, Trouble>((sent, stopwatch.elapsed()))
            };
            let (sent, acknowledged) = tokio::select! {
                // What is complete stays so, whatever becomes of the connection.
                biased;
                completed = completing => completed?,
                trouble = receive(&mut connection.arrivals, writers) => return Err(trouble),
            };
            Ok(Fetched { number, connection, sent, acknowledged })
        }
    }

    /// What the connections have, in the order of their numbers, while they live.
    fn accounts(&self, fetched: &[Fetched]) -> Result<Vec<ConnectionAccount>, Trouble> {
        let condition = self.options.condition;
        let read =
            |fetched: &Fetched| ConnectionAccount::read(&fetched.connection.gauge, condition, fetched.sent);
        fetched.iter().map(read).collect()
    }

    /// The source's account, unless it sent with other controllers than it was asked to.
    fn checked(&self, account: Account) -> Result<Account, Trouble> {
        let Condition { controller, connections, .. } = self.options.condition;
        let is_asked =
            account.connections.iter().all(|connection| connection.controller == controller.name());
        if is_asked && account.connections.len() == usize::from(connections) {
            return Ok(account);
        }
        Err(Trouble::Failed(format!(
            "the source did not send by {connections} connections with {controller}"
        )))
    }

    /// Syncs the copy and compares it with the manifest.
    async fn judge(&self, manifest: String, times: &mut Times) -> Result<(), Stop> {
        let (target, summary) = (self.target.clone(), self.data.clone());
        let judging = tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            target.sync().map_err(|error| Trouble::failed("syncing", &error))?;
            let synced = began.elapsed();
            let verified = verify(&target.place, &manifest, &summary);
            Ok::<_, Trouble>((synced, began.elapsed() - synced, verified))
        });
        let judged = judging.await.map_err(|error| Trouble::failed("verifying", &error))?;
        let (sync, verification, verified) = judged?;
        times.sync_s = Some(sync.as_secs_f64());
        times.verify_s = Some(verification.as_secs_f64());
        Ok(verified?)
    }
}

/// What the source says next on the control stream, until it was heard. It is kept over several waits, as half a message
/// may have come.
struct Answering<'a>(Option<BoxFuture<'a, Result<Answer, StudyError>>>);

impl Answering<'_> {
    /// The answer, once. May be dropped while it waits.
    async fn hear(&mut self) -> Option<Result<Answer, StudyError>> {
        let answer = self.0.as_mut()?.await;
        self.0 = None;
        Some(answer)
    }
}

/// What a source says at the end; what it tells of its data connections until then goes to `looks`, of which there are
/// `most` at most.
async fn answer(
    control: &mut SubstreamBox,
    looks: &mut Vec<SocketsSample>,
    most: u64,
) -> Result<Answer, StudyError> {
    loop {
        match control::receive(control).await? {
            Answer::Sockets(_) if looks.len() as u64 >= most => {
                return Err(StudyError::Violation("it tells of its connections too often"));
            }
            Answer::Sockets(look) => looks.push(look),
            last @ (Answer::Ready { .. } | Answer::Refused(_) | Answer::Broken(_) | Answer::Account(_)) => {
                return Ok(last);
            }
        }
    }
}

/// Waits for every connection to be done and for the source's account, in whatever order they come.
async fn collect(
    mut fetching: JoinSet<Result<Fetched, Trouble>>,
    answer: &mut Answering<'_>,
) -> Result<(Vec<Fetched>, Account), Stop> {
    let mut all = Vec::new();
    let mut account = None;
    loop {
        tokio::select! {
            Some(fetched) = fetching.join_next() => {
                all.push(fetched.map_err(|error| Trouble::failed("receiving", &error))??);
            }
            Some(answer) = answer.hear() => account = Some(accounted(answer)?),
            else => break,
        }
    }
    all.sort_by_key(|fetched| fetched.number);
    // It was waited for: without one the loop goes on.
    let account = account.ok_or(Trouble::Failed("the source has given no account".into()))?;
    Ok((all, account))
}

/// What the source may say once it was asked.
fn accounted(answer: Result<Answer, StudyError>) -> Result<Account, Trouble> {
    match answer {
        Ok(Answer::Account(account)) => Ok(account),
        Ok(Answer::Broken(broken)) => Err(broken.into()),
        Ok(Answer::Ready { .. } | Answer::Refused(_) | Answer::Sockets(_)) => {
            Err(Trouble::Failed("the source answers a second time".into()))
        }
        Err(error @ StudyError::Violation(_)) => Err(Trouble::Failed(error.to_string())),
        Err(error) => Err(Trouble::Aborted(error.to_string())),
    }
}

/// Where a connection was lost, the source may know why, and says so at once.
async fn reason(stop: Stop, answer: &mut Answering<'_>) -> Stop {
    let Stop::Trouble(Trouble::Aborted(_)) = stop else { return stop };
    match timeout(REASON_TIMEOUT, answer.hear()).await {
        Ok(Some(Ok(Answer::Broken(broken)))) => Stop::Trouble(broken.into()),
        Ok(_) | Err(_) => stop,
    }
}

/// Waits until all that the source sent by a connection is in closed files, and tells it so.
async fn complete(stream: &mut SubstreamBox, tally: &Tally) -> Result<Sent, Trouble> {
    let sent = request::hear(stream).await?;
    while tally.files() < sent.files {
        tally.changed.notified().await;
    }
    let taken = Sent { files: tally.files(), bytes: tally.bytes() };
    if taken != sent {
        return Err(Trouble::Failed(format!("{taken} came by one connection, and {sent} were sent")));
    }
    request::say(stream, taken).await?;
    Ok(taken)
}

/// Without an acknowledgement the observation has failed, whatever the reason.
async fn acknowledged(stream: &mut SubstreamBox, sent: Sent) -> Result<(), Trouble> {
    let failed = |reason: String| Trouble::Failed(format!("{sent} were not acknowledged: {reason}"));
    match timeout(ANSWER_TIMEOUT, request::acknowledged(stream)).await {
        Ok(acknowledged) => acknowledged.map_err(|trouble| failed(trouble.to_string())),
        Err(_) => Err(failed(format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()))),
    }
}

/// A connection that could not have its controller did not fail by itself.
fn connecting_failed(error: &io::Error) -> Trouble {
    let setup = error.get_ref().and_then(|inner| inner.downcast_ref::<SetupError>());
    match setup {
        Some(SetupError { cause: SetupCause::Controller(error), .. }) => Trouble::failed("connecting", error),
        Some(_) | None => Trouble::lost("connecting", error),
    }
}

/// Closes all data connections; how long it took.
async fn drain(fetched: Vec<Fetched>) -> Result<Duration, Trouble> {
    let began = Instant::now();
    let closing = fetched.into_iter().map(|fetched| fetched.connection.close(DRAIN_TIMEOUT));
    for closed in futures::future::join_all(closing).await {
        closed.map_err(Trouble::stream("closing a connection"))?;
    }
    Ok(began.elapsed())
}

/// Adds to `progress` again and again, for as long as it is polled.
async fn sample(tallies: &[Arc<Tally>], stopwatch: &Stopwatch, progress: &mut Vec<Progress>) {
    let mut ticks = interval(PROGRESS_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        progress.push(progress_now(tallies, stopwatch));
    }
}

/// Looks at the data connections again and again, for as long as it is polled.
async fn look(sockets: &Sockets, looks: &mut Vec<SocketsSample>) {
    let mut ticks = Sockets::ticks();
    loop {
        ticks.tick().await;
        looks.push(sockets.look());
    }
}

fn progress_now(tallies: &[Arc<Tally>], stopwatch: &Stopwatch) -> Progress {
    Progress {
        s: stopwatch.elapsed().as_secs_f64(),
        files: tallies.iter().map(|tally| tally.files()).sum(),
        bytes: tallies.iter().map(|tally| tally.bytes()).sum(),
    }
}
