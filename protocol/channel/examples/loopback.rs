//! Moves bytes from memory to memory over one connection on loopback: `loopback [tcp|quic] [STREAMS] [GB]`. Its figures
//! are in `docs/benchmarks/transports`; run it under `perf stat` or `time` for the processor seconds.

use std::{
    env,
    future::poll_fn,
    io::{self, Write as _},
    pin::Pin,
};

use futures::{AsyncReadExt as _, AsyncWriteExt as _, future::join_all};
use ketch_channel::{ChannelSettings, Deadlines, transport};
use libp2p_core::{
    Endpoint, StreamMuxer as _, Transport as _,
    muxing::{StreamMuxerBox, SubstreamBox},
    transport::{DialOpts, ListenerId, PortUse, TransportEvent},
};
use libp2p_identity::Keypair;
use tokio::{sync::mpsc, time::Instant};

const BLOCK_BYTES: usize = 256 * 1024;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = env::args().skip(1);
    let kind = arguments.next().unwrap_or_else(|| "tcp".into());
    let streams: usize = arguments.next().map_or(Ok(4), |count| count.parse())?;
    let gigabytes: f64 = arguments.next().map_or(Ok(4.0), |count| count.parse())?;
    let bytes_each = (gigabytes * 1e9) as usize / streams;

    let (dialed, accepted) = connect(&kind).await?;
    let (mut opened, _inbound) = drive(dialed, streams);
    let (_none, mut arrived) = drive(accepted, 0);
    let started = Instant::now();
    let mut sending = Vec::new();
    for _ in 0..streams {
        let stream = opened.recv().await.ok_or("the connection ended")?;
        sending.push(tokio::spawn(send(stream, bytes_each)));
    }
    let mut receiving = Vec::new();
    for _ in 0..streams {
        let stream = arrived.recv().await.ok_or("the connection ended")?;
        receiving.push(tokio::spawn(receive(stream)));
    }
    let mut received = 0;
    for ended in join_all(receiving).await {
        received += ended??;
    }
    for ended in join_all(sending).await {
        ended??;
    }
    let seconds = started.elapsed().as_secs_f64();
    let rate = received as f64 / 1e6 / seconds;
    writeln!(io::stdout(), "{kind}, {streams} streams: {received} bytes in {seconds:.3} s, {rate:.0} MB/s")?;
    Ok(())
}

async fn connect(kind: &str) -> Result<(StreamMuxerBox, StreamMuxerBox), Failure> {
    let side = || transport(&Keypair::generate_ed25519(), Deadlines::default(), ChannelSettings::default());
    let ((mut dialer, _), (mut listener, _)) = (side()?, side()?);
    let address = if kind == "quic" { "/ip4/127.0.0.1/udp/0/quic-v1" } else { "/ip4/127.0.0.1/tcp/0" };
    listener.listen_on(ListenerId::next(), address.parse()?)?;
    let mut next = async move || poll_fn(|context| Pin::new(&mut listener).poll(context)).await;
    let TransportEvent::NewAddress { listen_addr, .. } = next().await else {
        return Err("no address".into());
    };
    let options = DialOpts { role: Endpoint::Dialer, port_use: PortUse::New };
    let dialing = tokio::spawn(dialer.dial(listen_addr, options)?);
    let TransportEvent::Incoming { upgrade, .. } = next().await else { return Err("no connection".into()) };
    // Whoever dialed says the last of its words with its first bytes, so it must be driven meanwhile.
    let accepting = tokio::spawn(upgrade);
    tokio::spawn(async move {
        loop {
            next().await;
        }
    });
    let (_, mut dialed) = dialing.await??;
    let accepted = tokio::select! {
        accepted = accepting => accepted??.1,
        failed = poll_fn(|context| Pin::new(&mut dialed).poll(context)) => {
            return Err(format!("{failed:?}").into());
        }
    };
    Ok((dialed, accepted))
}

/// Drives a connection: opens so many streams, and hands over those that come.
fn drive(
    mut muxer: StreamMuxerBox,
    mut streams: usize,
) -> (mpsc::UnboundedReceiver<SubstreamBox>, mpsc::UnboundedReceiver<SubstreamBox>) {
    let (opening, opened) = mpsc::unbounded_channel();
    let (arriving, arrived) = mpsc::unbounded_channel();
    tokio::spawn(poll_fn(move |context| {
        while let std::task::Poll::Ready(Ok(stream)) = Pin::new(&mut muxer).poll_inbound(context) {
            let _ = arriving.send(stream);
        }
        while streams > 0
            && let std::task::Poll::Ready(Ok(stream)) = Pin::new(&mut muxer).poll_outbound(context)
        {
            let _ = opening.send(stream);
            streams -= 1;
        }
        Pin::new(&mut muxer).poll(context)
    }));
    (opened, arrived)
}

async fn send(mut stream: SubstreamBox, bytes: usize) -> io::Result<()> {
    let block = vec![7; BLOCK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let length = left.min(BLOCK_BYTES);
        stream.write_all(&block[..length]).await?;
        left -= length;
    }
    stream.close().await?;
    // The receiver ends its half when it has everything.
    stream.read(&mut [0]).await.map(drop)
}

async fn receive(mut stream: SubstreamBox) -> io::Result<usize> {
    let mut block = vec![0; BLOCK_BYTES];
    let mut received = 0;
    loop {
        match stream.read(&mut block).await? {
            0 => break,
            length => received += length,
        }
    }
    stream.close().await?;
    Ok(received)
}
