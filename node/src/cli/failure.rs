//! How a command ends: its exit code, and three lines when it did not do what it should.
//!
//! The codes are a contract with scripts (docs/cli.md lists them): 0 done, 1 failed, 2 usage,
//! 3 not found, 4 unavailable or timed out, 5 part of a batch failed, 10 unhealthy. An error says
//! in one line each what failed, why, and what to do. What this file does not do: it prints
//! nothing; `cli/mod.rs` does, once, at the very end.

use std::fmt;
use std::process::ExitCode;

use gaggle_client::{
    ConnectError, DeleteError, ExtendError, QueueError, ReceiveError, ReleaseError, SendError,
};
use gaggle_wire::Refusal;

/// The exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All was done.
    Done,
    /// It was not done, or was found wrong.
    Failed,
    /// The command line or a file it names makes no sense; nothing was changed.
    Usage,
    /// The queue, or what else was named, does not exist.
    NotFound,
    /// The cluster cannot be reached, cannot do it now, or did not answer in time.
    Unavailable,
    /// A part of a batch was not done.
    Partial,
    /// The cluster answers, and is not well.
    Unhealthy,
}

impl Exit {
    /// The number of it.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Unavailable => 4,
            Self::Partial => 5,
            Self::Unhealthy => 10,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command ends with anything but 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// What was not done.
    pub(crate) what: String,
    /// Why.
    pub(crate) why: String,
    /// What the user can do.
    pub(crate) remedy: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [("error", &self.what), ("why", &self.why), ("try", &self.remedy)];
        for (title, text) in lines {
            writeln!(f, "{title}: {}", text.trim().replace('\n', " "))?;
        }
        Ok(())
    }
}

impl Failure {
    /// A failure with its three lines.
    pub(crate) fn new(
        exit: Exit,
        what: impl Into<String>,
        why: impl fmt::Display,
        remedy: impl Into<String>,
    ) -> Self {
        Self { exit, what: what.into(), why: why.to_string(), remedy: remedy.into() }
    }

    /// The command line makes no sense.
    pub(crate) fn usage(
        what: impl Into<String>,
        why: impl fmt::Display,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(Exit::Usage, what, why, remedy)
    }

    /// What an error of the client means for the one who typed the command.
    pub(crate) fn of(what: impl Into<String>, error: &impl Answered) -> Self {
        let (exit, remedy) = match error.answer() {
            Some(refusal) => advise(refusal),
            None => error.advise_without_answer(),
        };
        Self::new(exit, what, error, remedy)
    }
}

/// An error behind which there may be the refusal of a node.
pub(crate) trait Answered: fmt::Display {
    /// The refusal.
    fn answer(&self) -> Option<&Refusal>;
    /// What to do when there is none.
    fn advise_without_answer(&self) -> (Exit, &'static str) {
        (Exit::Unavailable, SEE_STATUS)
    }
}

impl Answered for ConnectError {
    fn answer(&self) -> Option<&Refusal> {
        self.refusal()
    }

    fn advise_without_answer(&self) -> (Exit, &'static str) {
        match self {
            Self::Unreachable { .. } => (
                Exit::Unavailable,
                "check that the nodes run (`gaggle dev` starts some) and have this address",
            ),
            Self::Socket(_) => (Exit::Failed, "check the limits of this system: ulimit -n"),
            _ => (Exit::Usage, "check --connect, or the profile that --cluster names"),
        }
    }
}

impl Answered for SendError {
    fn answer(&self) -> Option<&Refusal> {
        self.refusal()
    }

    fn advise_without_answer(&self) -> (Exit, &'static str) {
        match self {
            Self::Message(_) => (Exit::Usage, "send something smaller"),
            _ => (Exit::Unavailable, SEE_STATUS),
        }
    }
}

impl Answered for QueueError {
    fn answer(&self) -> Option<&Refusal> {
        self.refusal()
    }

    fn advise_without_answer(&self) -> (Exit, &'static str) {
        match self {
            Self::Name(_) => (Exit::Usage, "choose another name"),
            _ => (Exit::Unavailable, SEE_STATUS),
        }
    }
}

macro_rules! answered {
    ($($error:ident)*) => {$(
        impl Answered for $error {
            fn answer(&self) -> Option<&Refusal> {
                self.refusal()
            }
        }
    )*};
}

answered!(ReceiveError DeleteError ExtendError ReleaseError);

/// The exit code of a refusal, and what the user can do.
fn advise(refusal: &Refusal) -> (Exit, &'static str) {
    match refusal {
        Refusal::QueueNotFound { .. } => (
            Exit::NotFound,
            "`gaggle queue list` shows the queues; `gaggle queue create` makes one",
        ),
        Refusal::QueueExists { .. } => {
            (Exit::Failed, "change it with `gaggle queue set`, or choose another name")
        }
        Refusal::NodeNotFound { .. } => (Exit::NotFound, "`gaggle status` shows the nodes"),
        Refusal::NodeAway { .. } => (
            Exit::Unavailable,
            "bring it back first; --accept-loss goes on without it, and loses what only it holds",
        ),
        Refusal::BadSetting { .. } => (Exit::Usage, "choose a value within these limits"),
        Refusal::ReservedName => (Exit::Usage, "choose a name with another ending"),
        Refusal::MessageTooLarge { .. } => (
            Exit::Usage,
            "send something smaller, or raise it: `gaggle queue set --message-size-max`",
        ),
        Refusal::BadRequest { .. } | Refusal::UnsupportedVersion { .. } => {
            (Exit::Failed, "use the version of gaggle that the nodes run: `gaggle --version`")
        }
        Refusal::ClockAhead { .. } => (Exit::Failed, "set the clock of this machine"),
        Refusal::StaleReceipt => (Exit::Failed, "receive the message again for a new receipt"),
        Refusal::OutcomeUnknown => (
            Exit::Unavailable,
            "it may have been done; look with `gaggle status` before repeating it",
        ),
        Refusal::NotEnoughHosts { .. } | Refusal::NotReady | Refusal::Draining => {
            (Exit::Unavailable, SEE_STATUS)
        }
        Refusal::DiskFull => (
            Exit::Unavailable,
            "make room on the disks of the nodes, or delete messages: `gaggle status` shows where",
        ),
        Refusal::LimitReached { .. } => {
            (Exit::Unavailable, "try again later, or with less at once")
        }
        _ => (Exit::Failed, "try again; `gaggle status` shows how the cluster is"),
    }
}

const SEE_STATUS: &str =
    "`gaggle status` shows which nodes are missing; try again once they are back";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_three_lines() {
        let failure = Failure::usage("cannot send", "the file\nis odd", "take another");
        assert_eq!(
            failure.to_string(),
            "error: cannot send\nwhy: the file is odd\ntry: take another\n"
        );
    }

    #[test]
    fn the_exit_code_follows_from_the_answer() {
        let cases = [
            (Refusal::QueueNotFound { queue: "q".to_owned() }, Exit::NotFound),
            (Refusal::NotReady, Exit::Unavailable),
            (Refusal::OutcomeUnknown, Exit::Unavailable),
            (Refusal::StaleReceipt, Exit::Failed),
            (Refusal::MessageTooLarge { limit: 1, length: 2 }, Exit::Usage),
        ];
        for (refusal, exit) in cases {
            assert_eq!(Failure::of("x", &SendError::Refused(refusal)).exit, exit);
        }
        assert_eq!(Failure::of("x", &SendError::TimedOut).exit, Exit::Unavailable);
        let unreachable = ConnectError::Unreachable { last: "n1: refused".to_owned() };
        assert_eq!(Failure::of("x", &unreachable).exit.code(), 4);
    }
}
