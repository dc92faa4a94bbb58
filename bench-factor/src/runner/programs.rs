//! The programs at both ends: this one, or other builds with the same command line.

use std::{
    collections::BTreeMap,
    env,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{
    error::{RunError, run_io_error},
    plan::{Plan, Planned, THIS_PROGRAM},
};
use crate::study::Condition;

/// By name.
#[derive(Debug)]
pub(super) struct Programs(BTreeMap<String, PathBuf>);

impl Programs {
    /// Those that `plan` names: `current` is this program, any other NAME is `bench-factor-NAME` beside it.
    pub(super) fn find(plan: &Plan) -> Result<Self, RunError> {
        let own = env::current_exe().map_err(run_io_error("find", Path::new("this program")))?;
        let planned = plan.pilots.iter().chain(&plan.conditions);
        let place = |name: &String| match name.as_str() {
            THIS_PROGRAM => own.clone(),
            other => own.with_file_name(format!("bench-factor-{other}")),
        };
        Ok(Self(planned.map(|planned| (planned.program.clone(), place(&planned.program))).collect()))
    }

    /// Fails unless all are there.
    pub(super) fn check(&self) -> Result<(), RunError> {
        match self.0.iter().find(|(_, path)| !path.is_file()) {
            None => Ok(()),
            Some((name, path)) => Err(RunError::NoProgram { name: name.clone(), path: path.clone() }),
        }
    }

    /// The source of an observation.
    pub(super) fn serve(
        &self,
        planned: &Planned,
        tree: &Path,
        listen: SocketAddr,
    ) -> Result<Command, RunError> {
        Ok(serve(self.command(planned)?, tree, listen))
    }

    /// All of them.
    pub(super) fn all(&self) -> &BTreeMap<String, PathBuf> {
        &self.0
    }

    /// Its target.
    pub(super) fn cell(
        &self,
        planned: &Planned,
        peer: SocketAddr,
        target: &Path,
        limit: Duration,
    ) -> Result<Command, RunError> {
        let Condition { layout, transport, controller, connections, profile, udp_buffer_bytes } =
            planned.condition;
        let mut command = self.command(planned)?;
        command.args(["cell", "--json", "--peer", &peer.to_string(), "--target"]).arg(target);
        command.args(["--layout", &layout.to_string(), "--transport", &transport.to_string()]);
        command.args(["--controller", &controller.to_string(), "--connections", &connections.to_string()]);
        command.args(["--profile", &profile.to_string(), "--limit", &limit.as_secs().to_string()]);
        if let Some(bytes) = udp_buffer_bytes {
            command.args(["--udp-buffer", &bytes.to_string()]);
        }
        if planned.discard {
            command.arg("--discard");
        }
        Ok(command)
    }

    fn command(&self, planned: &Planned) -> Result<Command, RunError> {
        let path = self.0.get(&planned.program);
        path.map(Command::new)
            .ok_or_else(|| RunError::NoProgram { name: planned.program.clone(), path: PathBuf::new() })
    }
}

/// What makes a program the source of one observation.
pub(super) fn serve(mut program: Command, tree: &Path, listen: SocketAddr) -> Command {
    program.args(["serve", "--once", "--listen", &listen.to_string(), "--data"]).arg(tree);
    program
}
