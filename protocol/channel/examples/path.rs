//! Moves bytes from memory over one QUIC connection and an emulated path: `path CONTROLLER PROFILE LOSS SECONDS`, where
//! CONTROLLER is `cubic`, `bbr` (the QUIC library's) or `bbr3` (ours), and LOSS is a probability, on the way to the
//! receiver. Writes a row of `docs/benchmarks/transports/quic-bbr.csv` but for its first column. Needs Linux, root and
//! /dev/net/tun.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() -> Result<(), linux::Failure> {
    linux::main()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        env,
        future::poll_fn,
        io::{self, Write as _},
        pin::Pin,
        sync::{
            atomic::{AtomicU64, Ordering},
            mpsc,
        },
        task::Poll,
        thread,
        time::{Duration, Instant},
    };

    use futures::{AsyncReadExt as _, AsyncWriteExt as _, StreamExt as _};
    use ketch_channel::{ChannelSettings, Controller, Deadlines, PathStatistics, QuicBbr, transport};
    use ketch_lab::{
        Lab, Side,
        model::{Direction, Loss},
        profile::Profile,
    };
    use libp2p_core::{
        Endpoint, Multiaddr, StreamMuxer as _, Transport as _,
        muxing::{StreamMuxerBox, StreamMuxerExt as _, SubstreamBox},
        transport::{DialOpts, ListenerId, PortUse, TransportEvent},
    };
    use libp2p_identity::Keypair;

    /// As many as a session has on one connection.
    const STREAMS: usize = 16;

    /// Time between two looks at what arrived.
    const LOOK: Duration = Duration::from_millis(100);

    pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

    pub(crate) fn main() -> Result<(), Failure> {
        let arguments: Vec<String> = env::args().skip(1).collect();
        let [controller, name, loss, seconds] = &arguments[..] else {
            return Err("usage: path CONTROLLER PROFILE LOSS SECONDS".into());
        };
        let (profile, mbit) = profile(name, loss.parse()?)?;
        let time = Duration::from_secs_f64(seconds.parse()?);
        let path = Lab::path(profile)?;
        let address = format!("/ip4/{}/udp/0/quic-v1", path.address(Side::B)).parse()?;
        let arrived = AtomicU64::new(0);
        let (announce, announced) = mpsc::channel();

        let (looks, statistics) = thread::scope(|scope| {
            let (path, arrived) = (&path, &arrived);
            scope.spawn(move || {
                path.enter(Side::B, move || on_this_host(receive(address, announce, arrived)))
            });
            let address = announced.recv()?;
            let settings = settings(controller)?;
            let looking = scope.spawn(move || on_this_host(look(time, arrived)));
            let sent = path.enter(Side::A, move || on_this_host(send(address, settings, time)))??;
            Ok::<_, Failure>((looking.join().map_err(|_| "the counting failed")?, sent))
        })?;

        let report = path.finish()?;
        let (sent, lost) = (statistics.sent_packets.unwrap_or(0), statistics.lost_packets.unwrap_or(0));
        let link = &report.a_to_b;
        let reached =
            reached(&looks, 0.9 * 0.965 * mbit).map_or_else(String::new, |time| format!("{time:.1}"));
        writeln!(
            io::stdout(),
            "{controller},{name},{loss},{seconds},{:.1},{sent},{lost},{:.4},{:.4},{:.1},{reached},{}",
            looks.last().copied().unwrap_or(0) as f64 * 8e-6 / time.as_secs_f64(),
            lost as f64 / sent as f64,
            link.queue_dropped_packets as f64 / link.packets_in as f64,
            link.queue_delay.p50_us / 1e3,
            if report.valid { "yes".into() } else { report.invalid_because.join("; ").replace(',', "") },
        )?;
        Ok(())
    }

    fn settings(controller: &str) -> Result<ChannelSettings, Failure> {
        let (controller, quic_bbr) = match controller {
            "cubic" => (Controller::Cubic, QuicBbr::Own),
            "bbr" => (Controller::Bbr, QuicBbr::Library),
            "bbr3" => (Controller::Bbr, QuicBbr::Own),
            other => return Err(format!("there is no controller {other}").into()),
        };
        Ok(ChannelSettings { controller: Some(controller), quic_bbr, ..ChannelSettings::default() })
    }

    /// The profile with this loss towards the receiver, and its rate in Mbit/s.
    fn profile(name: &str, probability: f64) -> Result<(Profile, f64), Failure> {
        let named = Profile::named(name)?;
        let mbit = named.a_to_b.rate.bits_per_second() as f64 / 1e6;
        let loss = if probability > 0.0 { Loss::Independent { probability } } else { named.a_to_b.loss };
        let a_to_b = Direction { loss, ..named.a_to_b };
        Ok((Profile { name: String::new(), a_to_b, b_to_a: named.b_to_a }, mbit))
    }

    /// What had arrived at each look.
    async fn look(time: Duration, arrived: &AtomicU64) -> Vec<u64> {
        let started = Instant::now();
        let mut looks = Vec::new();
        while started.elapsed() < time {
            tokio::time::sleep(LOOK).await;
            looks.push(arrived.load(Ordering::Relaxed));
        }
        looks
    }

    /// Seconds until half a second brought this rate.
    fn reached(looks: &[u64], mbit: f64) -> Option<f64> {
        let bytes = (mbit * 125_000.0 / 2.0) as u64;
        let index = looks.windows(6).position(|six| six[5] - six[0] >= bytes)?;
        Some(LOOK.as_secs_f64() * (index + 6) as f64)
    }

    async fn send(
        address: Multiaddr,
        settings: ChannelSettings,
        time: Duration,
    ) -> Result<PathStatistics, Failure> {
        let started = Instant::now();
        let (mut transport, gauges) =
            transport(&Keypair::generate_ed25519(), Deadlines::default(), settings)?;
        let options = DialOpts { role: Endpoint::Dialer, port_use: PortUse::New };
        let (_, mut connection) = transport.dial(address, options)?.await?;
        let gauge = gauges.take_dialed().and_then(|dialed| dialed.gauge()).ok_or("no gauge")?;
        let until = started + time;
        let mut sending = Vec::new();
        for _ in 0..STREAMS {
            let stream = poll_fn(|context| connection.poll_outbound_unpin(context)).await?;
            sending.push(tokio::spawn(fill(stream, until)));
        }
        tokio::time::sleep_until(until.into()).await;
        let statistics = gauge.statistics()?;
        poll_fn(|context| connection.poll_close_unpin(context)).await?;
        Ok(statistics)
    }

    async fn fill(mut stream: SubstreamBox, until: Instant) -> io::Result<()> {
        let block = vec![7; 64 * 1024];
        while Instant::now() < until {
            stream.write_all(&block).await?;
        }
        Ok(())
    }

    /// Until the sender goes away.
    async fn receive(
        address: Multiaddr,
        announce: mpsc::Sender<Multiaddr>,
        arrived: &AtomicU64,
    ) -> Result<(), Failure> {
        let (mut transport, _gauges) =
            transport(&Keypair::generate_ed25519(), Deadlines::default(), ChannelSettings::default())?;
        transport.listen_on(ListenerId::next(), address)?;
        let mut connection = loop {
            match transport.select_next_some().await {
                TransportEvent::NewAddress { listen_addr, .. } => announce.send(listen_addr)?,
                TransportEvent::Incoming { upgrade, .. } => break upgrade.await?.1,
                TransportEvent::AddressExpired { .. }
                | TransportEvent::ListenerClosed { .. }
                | TransportEvent::ListenerError { .. } => return Err("the listener ended".into()),
            }
        };
        let mut counting = futures::stream::FuturesUnordered::new();
        loop {
            tokio::select! {
                stream = accept(&mut connection) => match stream {
                    Ok(stream) => counting.push(count(stream, arrived)),
                    Err(_) => return Ok(()),
                },
                Some(()) = counting.next() => {}
            }
        }
    }

    async fn accept(connection: &mut StreamMuxerBox) -> io::Result<SubstreamBox> {
        poll_fn(|context| {
            if let Poll::Ready(Err(error)) = Pin::new(&mut *connection).poll(context) {
                return Poll::Ready(Err(error));
            }
            Pin::new(&mut *connection).poll_inbound(context)
        })
        .await
    }

    async fn count(mut stream: SubstreamBox, arrived: &AtomicU64) {
        let mut block = vec![0; 64 * 1024];
        while let Ok(read) = stream.read(&mut block).await
            && read > 0
        {
            arrived.fetch_add(read as u64, Ordering::Relaxed);
        }
    }

    /// Runs to the end in this thread, so that every socket is made on its host.
    fn on_this_host<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime of one thread needs a descriptor or two").block_on(work)
    }
}
