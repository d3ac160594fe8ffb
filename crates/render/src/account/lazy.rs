use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use super::Account;
use crate::{Dropped, Prompt};

/// Determines the account of a prompt by its origins.
type ByOrigins = dyn Fn(&Prompt) -> Account + Send + Sync;

/// The account of a run and what was left out, determined by what the run recorded.
type OfRun = LazyLock<(Account, Vec<Dropped>), Box<dyn FnOnce() -> (Account, Vec<Dropped>) + Send>>;

/// The account of a prompt, which is determined once it is asked for.
#[derive(Clone, Default)]
pub(crate) enum LazyAccount {
    /// Nobody knows the request of the prompt.
    #[default]
    Unknown,
    /// The origins of the prompt tell it.
    ByOrigins { determined: OnceLock<Arc<Account>>, determine: Arc<ByOrigins> },
    /// A run tells it, whatever becomes of the prompt.
    OfRun(Arc<OfRun>),
}

impl LazyAccount {
    pub fn by_origins(determine: impl Fn(&Prompt) -> Account + Send + Sync + 'static) -> LazyAccount {
        LazyAccount::ByOrigins { determined: OnceLock::new(), determine: Arc::new(determine) }
    }

    pub fn of_run(determine: impl FnOnce() -> (Account, Vec<Dropped>) + Send + 'static) -> LazyAccount {
        LazyAccount::OfRun(Arc::new(LazyLock::new(Box::new(determine))))
    }

    /// Returns the account of the prompt that this belongs to.
    pub fn get(&self, prompt: &Prompt) -> Option<&Account> {
        match self {
            LazyAccount::Unknown => None,
            LazyAccount::ByOrigins { determined, determine } => {
                Some(determined.get_or_init(|| Arc::new(determine(prompt))))
            }
            LazyAccount::OfRun(run) => Some(&run.0),
        }
    }

    /// Returns what the run left out, if a run tells the account.
    pub fn dropped(&self) -> Option<&[Dropped]> {
        match self {
            LazyAccount::Unknown | LazyAccount::ByOrigins { .. } => None,
            LazyAccount::OfRun(run) => Some(&run.1),
        }
    }

    /// Returns the account of a part of the prompt. By its origins, the rest would be left out.
    pub fn of_part(self) -> LazyAccount {
        if matches!(self, LazyAccount::ByOrigins { .. }) { LazyAccount::Unknown } else { self }
    }
}

/// Two prompts of the same request have the same account.
impl PartialEq for LazyAccount {
    fn eq(&self, _: &LazyAccount) -> bool {
        true
    }
}

impl fmt::Debug for LazyAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LazyAccount::Unknown => "Unknown",
            LazyAccount::ByOrigins { .. } => "ByOrigins",
            LazyAccount::OfRun(_) => "OfRun",
        })
    }
}

#[cfg(test)]
mod tests {
    use rolecall_conversation::{Conversation, Message};
    use rolecall_format::builtin;

    use crate::{Account, LeafKind, Options, Writer};

    #[test]
    fn a_part_of_a_prompt_does_not_take_the_rest_for_left_out() {
        let conversation = Conversation::new(vec![Message::user("Hello")]);
        let formats = builtin();
        let format = formats.get("chatml").expect("built in");
        let writer = Writer::format(format.clone(), Options::default());
        let mut prompt = writer.render(&conversation).expect("it renders");
        prompt.set_account_by_origins(move |prompt| Account::by_origins(&conversation, prompt));
        let (first, rest) = (prompt.up_to(3).expect("a part"), prompt.after(3).expect("a part"));
        assert!(first.account().is_none() && rest.account().is_none());
        let account = prompt.account().expect("the whole prompt has one");
        assert_eq!((account.count(LeafKind::Written), account.count(LeafKind::LeftOut)), (1, 0));
    }
}
