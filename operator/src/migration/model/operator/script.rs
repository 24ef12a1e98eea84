//! The small steps, and those of which each action consists.

use crds::control::GateState;

use super::{Omission, Operator, RETAKE_MARGIN};
use crate::migration::model::cluster::{Key, Object, State};
use crate::migration::plan::action::{Action, SwitchFrom};

/// One small step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Small {
    Gate(GateState, Option<bool>),
    /// The copy begins anew.
    MirrorReset,
    MirrorList,
    Verify,
    ApiService(bool),
    /// All kube-apiservers know whether the APIService leads to the server.
    Confirm(bool),
    /// A switch is undone where somebody has taken the APIService away.
    UndoUnlessOurs,
    Drain,
    /// The counter is raised above etcd's revision, by so much.
    Floor(u64),
    Wait,
    /// The CRD is changed; before the way back etcd's revision is raised above our counter.
    OpenDoor {
        raised: bool,
    },
    CloseDoor,
    /// The differences have to be written.
    Compare,
    /// The changes since the jump have to be written.
    BeforeCut,
    /// The server is told that a copy is about to be made.
    Announce(Key),
    WriteBack {
        key: Key,
        state: State,
        /// The server is told.
        marks: bool,
    },
    /// An object that came and went does so in etcd.
    Flash(Key, Object),
    Jump,
    Follow,
    Rest,
    /// Clients are served again where somebody has taken the APIService away.
    ReopenUnlessOurs,
    EndHold,
    /// Writes past the server are looked for; what is dropped is named, and marked after that.
    Look,
    MarkDropped,
    Prune,
}

impl Operator {
    pub(super) fn script(&self, action: Action) -> Vec<Small> {
        use GateState::{Closed, Held, Open};
        let gate = |state| Small::Gate(state, None);
        let mut script = match action {
            Action::CloseGates => vec![gate(Closed)],
            Action::Mirror => vec![Small::MirrorReset, Small::MirrorList],
            Action::Verify => vec![Small::Verify],
            Action::Switch(from) => {
                let all = vec![
                    Small::Gate(Held, Some(false)),
                    Small::ApiService(true),
                    Small::Confirm(true),
                    Small::Drain,
                    Small::UndoUnlessOurs,
                    Small::Floor(0),
                    gate(Open),
                ];
                let skipped = match from {
                    SwitchFrom::Hold => 0,
                    SwitchFrom::Patch => 1,
                    SwitchFrom::Confirm => 2,
                };
                let mut all: Vec<_> = all.into_iter().skip(skipped).collect();
                if skipped > 0 {
                    all.insert(0, Small::Gate(Held, Some(false)));
                }
                all
            }
            Action::Reopen => vec![gate(Open)],
            Action::Retake => vec![
                Small::Floor(RETAKE_MARGIN),
                Small::Gate(Open, Some(false)),
                Small::ApiService(true),
            ],
            Action::Settle => vec![
                Small::Confirm(true),
                Small::OpenDoor { raised: false },
                Small::Look,
                Small::MarkDropped,
                Small::Gate(Open, Some(true)),
                Small::CloseDoor,
            ],
            Action::CloseDoor => vec![Small::CloseDoor],
            Action::Soak => vec![Small::Wait],
            Action::Prune => vec![Small::OpenDoor { raised: false }, Small::Prune],
            Action::Undo => vec![Small::ApiService(false), gate(Closed)],
            Action::Back => vec![
                Small::OpenDoor { raised: true },
                Small::Compare,
                Small::Jump,
                Small::BeforeCut,
                Small::Follow,
                gate(Held),
                Small::Follow,
                Small::Rest,
                Small::ReopenUnlessOurs,
                Small::EndHold,
                Small::ApiService(false),
                Small::Confirm(false),
                gate(Closed),
            ],
            Action::Release => vec![
                Small::ApiService(false),
                Small::Confirm(false),
                gate(Closed),
            ],
            Action::Register | Action::Refresh | Action::ImportDatabase => {
                unreachable!("nobody in the model brings {action:?} about")
            }
        };
        let omitted = |small: &Small| match self.omission {
            Some(Omission::Confirm) => *small == Small::Confirm(true),
            Some(Omission::Jump) => *small == Small::Jump,
            Some(Omission::Floor) => matches!(small, Small::Floor(_)),
            Some(Omission::Drain) => *small == Small::Drain,
            Some(Omission::Hold) => matches!(action, Action::Back) && *small == gate(Held),
            Some(Omission::Laggards) => action == Action::Settle && *small == Small::Confirm(true),
            Some(Omission::Dropped) => *small == Small::MarkDropped,
            Some(Omission::Marks | Omission::Cut | Omission::Finish | Omission::Conflict)
            | None => false,
        };
        script.retain(|small| !omitted(small));
        script
    }
}
