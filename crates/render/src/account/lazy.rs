use std::fmt;
use std::sync::{Arc, OnceLock};

use super::Account;
use crate::Prompt;

/// Determines the account of a prompt.
type Determine = dyn Fn(&Prompt) -> Account + Send + Sync;

/// The account of a prompt, which is determined once it is asked for.
#[derive(Clone, Default)]
pub(crate) struct LazyAccount {
    determined: OnceLock<Arc<Account>>,
    determine: Option<Arc<Determine>>,
}

impl LazyAccount {
    pub fn new(determine: impl Fn(&Prompt) -> Account + Send + Sync + 'static) -> LazyAccount {
        LazyAccount { determined: OnceLock::new(), determine: Some(Arc::new(determine)) }
    }

    /// Returns the account of the prompt that this belongs to, or `None` if nobody knows its request.
    pub fn get(&self, prompt: &Prompt) -> Option<&Account> {
        match &self.determine {
            Some(determine) => Some(self.determined.get_or_init(|| Arc::new(determine(prompt)))),
            None => self.determined.get().map(Arc::as_ref),
        }
    }

    /// Returns the account of a part of the prompt. What is determined later would take the rest for left out.
    pub fn of_part(self) -> LazyAccount {
        if self.determine.is_some() { LazyAccount::default() } else { self }
    }
}

impl From<Account> for LazyAccount {
    fn from(account: Account) -> LazyAccount {
        LazyAccount { determined: OnceLock::from(Arc::new(account)), determine: None }
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
        self.determined.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use rolecall_conversation::{Conversation, Message};
    use rolecall_format::builtin;

    use crate::{LeafKind, Options, account_by_format, render};

    #[test]
    fn a_part_of_a_prompt_does_not_take_the_rest_for_left_out() {
        let conversation = Conversation::new(vec![Message::user("Hello")]);
        let formats = builtin();
        let format = formats.get("chatml").expect("built in");
        let mut prompt = render(&conversation, format, &Options::default()).expect("it renders");
        prompt.set_account_later(move |prompt| account_by_format(&conversation, prompt));
        let (first, rest) = (prompt.up_to(3).expect("a part"), prompt.after(3).expect("a part"));
        assert!(first.account().is_none() && rest.account().is_none());
        let account = prompt.account().expect("the whole prompt has one");
        assert_eq!((account.count(LeafKind::Written), account.count(LeafKind::LeftOut)), (1, 0));
    }
}
