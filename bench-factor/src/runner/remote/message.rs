//! What the runner and the agent on the remote host say to each other: one JSON object a line, a reply to each request and
//! nothing while an observation is made. Both ends are the same executable, so nothing here has a version.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::super::sampler::Sampled;
use crate::tools::{plan::Work, target::FileSystem};

/// What the runner asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Request {
    /// Write the sources of a run, and close the data port to everybody.
    Begin(Beginning),
    /// Open the port to the peer, and start a source.
    Serve {
        /// Name of the executable among the uploaded ones.
        program: String,
        /// Which of the data sets.
        data: String,
        /// Threads that keep processors busy meanwhile.
        load_threads: u32,
    },
    /// End the source, and close the port again.
    End {
        /// Whether it is about to end by itself.
        by_itself: bool,
    },
}

/// What all observations of a run have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Beginning {
    /// Everything is made below this folder, which is the run's own.
    pub(super) scratch: PathBuf,
    /// What sources are kept on.
    pub(super) source: FileSystem,
    /// Decides their content.
    pub(super) seed: u64,
    pub(super) data: BTreeMap<String, Work>,
    /// Who may reach the data port.
    pub(super) peer: IpAddr,
}

/// What the agent answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Reply {
    /// Said first, before anything is asked.
    Hello {
        kernel: String,
        /// Where the control channel comes from, as the remote host sees it.
        client: Option<IpAddr>,
    },
    /// The sources are there.
    Ready {
        /// Files and bytes of each data set.
        content: BTreeMap<String, (u64, u64)>,
        /// Why the port cannot be kept closed, where it cannot.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unguarded: Option<String>,
    },
    /// The source listens.
    Serving,
    /// The source has ended.
    Ended {
        /// The end of what it printed.
        log: String,
        /// What this host did meanwhile.
        sampled: Sampled,
    },
    /// What was asked could not be done.
    Failed { reason: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_one_line_and_is_heard_as_it_was_said() {
        let beginning = Beginning {
            scratch: "/dev/shm/run\n1".into(),
            source: FileSystem::Btrfs,
            seed: u64::MAX,
            data: BTreeMap::from([("small".to_owned(), Work::Small { files: 3, bytes: 9 })]),
            peer: "2001:db8::7".parse().unwrap(),
        };
        for request in [
            Request::Begin(beginning),
            Request::Serve { program: "a".into(), data: "small".into(), load_threads: 2 },
            Request::End { by_itself: true },
        ] {
            let line = serde_json::to_string(&request).unwrap();
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request);
        }
    }

    #[test]
    fn replies_are_heard_as_they_were_said() {
        for reply in [
            Reply::Hello { kernel: "6.1".into(), client: None },
            Reply::Ready { content: BTreeMap::from([("small".to_owned(), (3, 27))]), unguarded: None },
            Reply::Serving,
            Reply::Ended { log: "sent\n".into(), sampled: Sampled::default() },
            Reply::Failed { reason: "no".into() },
        ] {
            let line = serde_json::to_string(&reply).unwrap();
            assert_eq!(serde_json::from_str::<Reply>(&line).unwrap(), reply);
        }
    }
}
