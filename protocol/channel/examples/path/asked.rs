//! What the arguments ask for.

use std::time::Duration;

use ketch_channel::{ChannelSettings, Controller, QuicBbr};
use ketch_lab::{
    model::{Direction, Loss},
    profile::Profile,
    units::{Queue, Rate, parse_ns},
};

use crate::linux::Failure;

/// What is left of a rate for content: headers of IP, UDP and QUIC take 3.5 percent of a packet of 1,452 bytes.
const CONTENT_SHARE: f64 = 0.965;

/// The share of it that a start is to reach.
const REACHED_SHARE: f64 = 0.9;

pub(crate) struct Asked {
    pub(crate) link: String,
    pub(crate) profile: Profile,
    pub(crate) loss: f64,
    pub(crate) seed: u64,
    pub(crate) time: Duration,
    pub(crate) flow_names: Vec<String>,
    pub(crate) flows: Vec<Flow>,
}

#[derive(Clone)]
pub(crate) struct Flow {
    pub(crate) kind: Kind,
    pub(crate) starts: Duration,
}

#[derive(Clone)]
pub(crate) enum Kind {
    Quic(ChannelSettings),
    Tcp(Controller),
}

impl Asked {
    pub(crate) fn read(arguments: &[String]) -> Result<Self, Failure> {
        let [link, loss, seed, seconds, flow_names @ ..] = arguments else {
            return Err("usage: path LINK LOSS SEED SECONDS FLOW...".into());
        };
        let loss = loss.parse()?;
        Ok(Self {
            link: link.clone(),
            profile: lossy(profile(link)?, loss),
            loss,
            seed: seed.parse()?,
            time: Duration::from_secs(seconds.parse()?),
            flow_names: flow_names.to_vec(),
            flows: flow_names.iter().map(|name| flow(name)).collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn rate_to_reach_mbit(&self) -> f64 {
        REACHED_SHARE * CONTENT_SHARE * self.profile.a_to_b.rate.bits_per_second() as f64 / 1e6
    }
}

fn profile(link: &str) -> Result<Profile, Failure> {
    let parts: Vec<&str> = link.split('/').collect();
    let [rate, rtt, queue] = parts[..] else { return Ok(Profile::named(link)?) };
    Ok(Profile::even(rate.parse::<Rate>()?, parse_ns(rtt)?, queue.parse::<Queue>()?))
}

fn lossy(profile: Profile, probability: f64) -> Profile {
    if probability == 0.0 {
        return profile;
    }
    let a_to_b = Direction { loss: Loss::Independent { probability }, ..profile.a_to_b };
    Profile { name: String::new(), a_to_b, ..profile }
}

fn flow(name: &str) -> Result<Flow, Failure> {
    let (kind, starts) = name.split_once('@').unwrap_or((name, "0"));
    let quic = |controller, quic_bbr| {
        let controller = Some(controller);
        Kind::Quic(ChannelSettings { controller, quic_bbr, ..ChannelSettings::default() })
    };
    let kind = match kind {
        "bbr3" => quic(Controller::Bbr, QuicBbr::Own),
        "bbr" => quic(Controller::Bbr, QuicBbr::Library),
        "cubic" => quic(Controller::Cubic, QuicBbr::Own),
        "tcp-bbr" => Kind::Tcp(Controller::Bbr),
        "tcp-cubic" => Kind::Tcp(Controller::Cubic),
        other => return Err(format!("there is no flow {other}").into()),
    };
    Ok(Flow { kind, starts: Duration::from_secs_f64(starts.parse()?) })
}
