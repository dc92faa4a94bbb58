//! A target and sources that lie, break off or are of another build, in one process.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::AsyncWriteExt as _;
use ketch_channel::TransportKind;
use libp2p_core::muxing::SubstreamBox;
use sha2::{Digest as _, Sha256};

use super::{
    BUILD,
    cell::{Options, observe_as},
    cell_report::{CellReport, Outcome},
    condition::{Condition, Layout, Profile},
    controller::Controller,
    error::StudyError,
    reading::Sent,
    request,
    serve::{Control, Joined, Source, join},
};

const CONDITION: Condition = Condition {
    layout: Layout::Bundle,
    transport: TransportKind::Quic,
    controller: Controller::Cubic,
    connections: 1,
    profile: Profile::Seed,
    udp_buffer_bytes: None,
};

/// The record of a file `a` with three bytes.
const RECORD: &[u8] = b"\x00\x01\x00\x00\x00\x00\x00\x00\x00\x03aone";

/// A place with a source of two files, and room for a target.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("source")).unwrap();
    fs::write(place.path().join("source/a"), "one").unwrap();
    fs::write(place.path().join("source/b"), "two").unwrap();
    place
}

fn open(place: &Path, build: &'static str) -> Source {
    Source::open(&place.join("source"), "127.0.0.1:0".parse().unwrap(), build).unwrap()
}

fn options(place: &Path, source: &Source) -> Options {
    Options {
        target: place.join("room/target"),
        peer: source.address,
        condition: CONDITION,
        discard: false,
        limit: Duration::from_secs(60),
        started: Instant::now(),
    }
}

/// An observation of a source that does as it should, with what it has.
async fn observe(place: &Path, mut source: Source) -> CellReport {
    let mut ends = source.listen().await.unwrap();
    let options = options(place, &source);
    let serving = async {
        let (mut control, condition) = source.arrange(&mut ends).await.unwrap();
        drop(ends);
        // The target is the one to say how it went.
        let _ = source.observe(&mut control, condition).await;
    };
    tokio::join!(serving, observe_as(&options, BUILD)).1.unwrap()
}

/// What a source holds until the target has made up its mind.
type Held = (Control, Joined, SubstreamBox);

/// An observation of a source that does `act` once a data connection has asked.
async fn observe_act(
    place: &Path,
    limit: Duration,
    act: impl AsyncFnOnce(Control, Joined) -> Option<Held>,
) -> CellReport {
    let mut source = open(place, BUILD);
    let mut ends = source.listen().await.unwrap();
    let options = Options { limit, ..options(place, &source) };
    let serving = async {
        let (mut control, condition) = source.arrange(&mut ends).await.unwrap();
        drop(ends);
        let (mut ends, cell) = source.begin(&mut control, condition).await.unwrap();
        let peer = control.connection.peer;
        let joined = join(ends.accept().await, cell, peer).await.unwrap();
        if let Some((mut control, joined, stream)) = act(control, joined).await {
            control.await_end(LONG).await;
            drop((joined, stream));
        }
    };
    tokio::join!(serving, observe_as(&options, BUILD)).1.unwrap()
}

const LONG: Duration = Duration::from_secs(60);

/// What a report says of a failure.
fn failure(report: &CellReport) -> &str {
    match &report.outcome {
        Outcome::Failed { reason } => reason,
        other @ (Outcome::Verified
        | Outcome::Discarded
        | Outcome::Aborted { .. }
        | Outcome::Censored { .. }) => {
            panic!("{other:?}")
        }
    }
}

/// Makes the manifest of a source say something else, and announce it.
fn claim(source: &mut Source, text: String) {
    source.manifest.summary.sha256 = format!("{:x}", Sha256::digest(&text));
    source.manifest.summary.manifest_bytes = text.len() as u64;
    source.manifest.text = text;
}

#[tokio::test]
async fn an_honest_source_is_verified() {
    let place = place();
    let report = observe(place.path(), open(place.path(), BUILD)).await;
    assert_eq!(report.outcome, Outcome::Verified);
    assert_eq!((report.data.files, report.data.bytes), (2, 6));
    assert_eq!(fs::read(place.path().join("room/target/b")).unwrap(), b"two");
}

#[tokio::test]
async fn a_wrong_hash_fails_the_observation() {
    let place = place();
    let mut source = open(place.path(), BUILD);
    let hash_of_one = format!("{:x}", Sha256::digest("one"));
    let text = source.manifest.text.replace(&hash_of_one, &format!("{:x}", Sha256::digest("two")));
    claim(&mut source, text);
    let report = observe(place.path(), source).await;
    assert!(failure(&report).starts_with("the copy differs: expected a:3:"), "{report}");
    assert_eq!(report.mb_per_s, None);
}

#[tokio::test]
async fn a_manifest_with_more_than_was_sent_fails_the_observation() {
    let place = place();
    let mut source = open(place.path(), BUILD);
    source.files = Arc::new(source.files[..1].to_vec());
    let report = observe(place.path(), source).await;
    assert!(failure(&report).starts_with("the copy differs: expected b:3:"), "{report}");
}

#[tokio::test]
async fn a_path_that_leads_out_fails_the_observation_and_nothing_is_written() {
    let place = place();
    for path in ["../x", "/tmp/x", "a/../../x", ""] {
        let report = observe_act(place.path(), LONG, async |control, joined: Joined| {
            let mut stream = joined.connection.opener.open().await.unwrap();
            let length = (path.len() as u16).to_be_bytes();
            let header = [&length[..], &4_u64.to_be_bytes(), path.as_bytes(), b"evil"].concat();
            stream.write_all(&header).await.unwrap();
            stream.close().await.unwrap();
            Some((control, joined, stream))
        })
        .await;
        assert!(failure(&report).starts_with("a record has an impossible path: "), "{report}");
        // then the target is empty, and beside it is nothing
        assert_eq!(fs::read_dir(place.path().join("room/target")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(place.path().join("room")).unwrap().count(), 1);
    }
}

#[tokio::test]
async fn a_file_that_is_sent_twice_fails_the_observation() {
    let place = place();
    let report = observe_act(place.path(), LONG, async |control, joined: Joined| {
        let mut stream = joined.connection.opener.open().await.unwrap();
        stream.write_all(&[RECORD, RECORD].concat()).await.unwrap();
        Some((control, joined, stream))
    })
    .await;
    assert!(failure(&report).starts_with("making the file a: "), "{report}");
}

#[tokio::test]
async fn a_source_that_is_gone_in_the_middle_is_an_aborted_observation() {
    let place = place();
    let report = observe_act(place.path(), LONG, async |control, joined: Joined| {
        let mut stream = joined.connection.opener.open().await.unwrap();
        stream.write_all(&RECORD[..12]).await.unwrap();
        // when everything is dropped, as when the process is killed
        drop((control, joined, stream));
        None
    })
    .await;
    assert!(matches!(report.outcome, Outcome::Aborted { .. }), "{report}");
    assert!(report.times.ready_s.is_none() && report.source.is_none());
}

#[tokio::test]
async fn a_source_that_stops_is_censored_at_the_limit_with_its_progress() {
    let place = place();
    // Long enough for one file on a machine that is busy with other things.
    let limit = Duration::from_secs(5);
    let report = observe_act(place.path(), limit, async |control, joined: Joined| {
        let mut stream = joined.connection.opener.open().await.unwrap();
        stream.write_all(RECORD).await.unwrap();
        Some((control, joined, stream))
    })
    .await;
    assert_eq!(report.outcome, Outcome::Censored { limit_s: 5.0 });
    let last = report.progress.last().unwrap();
    assert_eq!((last.files, last.bytes), (1, 3), "{report}");
    assert!(last.s >= 5.0 && report.progress.len() >= 5);
}

#[tokio::test]
async fn a_completion_that_is_not_acknowledged_fails_the_observation() {
    let place = place();
    let report = observe_act(place.path(), LONG, async |control, mut joined: Joined| {
        let mut stream = joined.connection.opener.open().await.unwrap();
        stream.write_all(RECORD).await.unwrap();
        stream.close().await.unwrap();
        let sent = Sent { files: 1, bytes: 3 };
        request::say(&mut joined.stream, sent).await.unwrap();
        // given a target that has everything
        assert_eq!(request::hear(&mut joined.stream).await.unwrap(), sent);
        // when its completion is not answered
        joined.stream.close().await.unwrap();
        Some((control, joined, stream))
    })
    .await;
    assert!(failure(&report).starts_with("1 files with 3 bytes were not acknowledged: "), "{report}");
}

#[tokio::test]
async fn counts_that_are_not_what_came_fail_the_observation() {
    let place = place();
    let report = observe_act(place.path(), LONG, async |control, mut joined: Joined| {
        let mut stream = joined.connection.opener.open().await.unwrap();
        stream.write_all(RECORD).await.unwrap();
        request::say(&mut joined.stream, Sent { files: 1, bytes: 4 }).await.unwrap();
        Some((control, joined, stream))
    })
    .await;
    assert!(failure(&report).ends_with("and 1 files with 4 bytes were sent"), "{report}");
}

#[tokio::test]
async fn a_file_that_changed_since_the_manifest_fails_the_observation_by_its_name() {
    let place = place();
    let source = open(place.path(), BUILD);
    fs::write(place.path().join("source/b"), "").unwrap();
    let report = observe(place.path(), source).await;
    assert!(failure(&report).starts_with("the source says: reading b: "), "{report}");
}

#[tokio::test]
async fn ends_of_different_builds_refuse_each_other() {
    let place = place();
    let other = "0000000000000000000000000000000000000000000000000000000000000000";
    let mut source = open(place.path(), other);
    let mut ends = source.listen().await.unwrap();
    let options = options(place.path(), &source);
    let (arranged, observed) = tokio::join!(source.arrange(&mut ends), observe_as(&options, BUILD));
    let (Err(at_source), Err(at_target)) = (arranged, observed) else { panic!("they get along") };
    let is_refusal = |error: &StudyError| matches!(error, StudyError::OtherBuild { .. });
    assert!(is_refusal(&at_source) && is_refusal(&at_target), "{at_source} / {at_target}");
    assert_eq!(
        at_target.to_string(),
        format!("the other end is another build: it is {other}, this is {BUILD}")
    );
}

#[tokio::test]
async fn what_a_source_cannot_do_is_refused_with_the_reason() {
    let place = place();
    let mut source = open(place.path(), BUILD);
    let mut ends = source.listen().await.unwrap();
    let none = Condition { connections: 0, ..CONDITION };
    let options = Options { condition: none, ..options(place.path(), &source) };
    let serving = async {
        let (mut control, condition) = source.arrange(&mut ends).await.unwrap();
        source.observe(&mut control, condition).await
    };
    let (served, observed) = tokio::join!(serving, observe_as(&options, BUILD));
    assert!(served.is_err());
    let refused = observed.unwrap_err().to_string();
    assert_eq!(refused, "the source refused: 0 connections are asked for, 1 to 16 are possible");
}
