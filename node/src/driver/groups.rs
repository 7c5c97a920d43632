//! Write before speak: which words wait for which commit.
//!
//! ```text
//!              gathering             running             spoken
//!   changes ->  [c c c]  --commit-->  [    ]  --durable-->
//!   words   ->  [w w]    ---------->  [w w w] ---------->  w w w
//! ```
//!
//! While one group is being made durable the next one gathers. A word goes behind the changes
//! that stand before it: to the gathering group if that has any, else to the running one, else it
//! is spoken at once. So a word overtakes neither a change nor another word.
//!
//! What this file does not do: it commits nothing and speaks nothing; see `life.rs`.

/// The two groups that can be under way.
#[derive(Debug)]
pub(crate) struct Groups<C, W> {
    changes: Vec<C>,
    words: Vec<W>,
    running: Option<Vec<W>>,
}

impl<C, W> Groups<C, W> {
    /// Nothing under way.
    pub(crate) fn new() -> Self {
        Self { changes: Vec::new(), words: Vec::new(), running: None }
    }

    /// A change to be made durable with the gathering group.
    pub(crate) fn write(&mut self, change: C) {
        self.changes.push(change);
    }

    /// A word to be spoken when all changes before it are durable: given back if they are.
    pub(crate) fn say(&mut self, word: W) -> Option<W> {
        if !self.changes.is_empty() {
            self.words.push(word);
            return None;
        }
        match &mut self.running {
            Some(words) => {
                words.push(word);
                None
            }
            None => Some(word),
        }
    }

    /// The changes to commit now: what has gathered, if no commit is under way.
    pub(crate) fn start(&mut self) -> Option<Vec<C>> {
        if self.changes.is_empty() || self.running.is_some() {
            return None;
        }
        self.running = Some(std::mem::take(&mut self.words));
        Some(std::mem::take(&mut self.changes))
    }

    /// The commit under way is durable: these may be spoken, in order.
    pub(crate) fn end(&mut self) -> Vec<W> {
        self.running.take().expect("a commit ends once after it was started")
    }

    /// Changes that have gathered.
    pub(crate) fn gathered(&self) -> usize {
        self.changes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_before_any_change_is_spoken_at_once() {
        let mut groups = Groups::<u32, &str>::new();
        assert_eq!(groups.say("a"), Some("a"));
        assert_eq!(groups.start(), None);
    }

    #[test]
    fn a_word_waits_for_the_change_before_it() {
        let mut groups = Groups::new();
        groups.write(1);
        assert_eq!(groups.say("a"), None);
        assert_eq!(groups.start(), Some(vec![1]));
        assert_eq!(groups.end(), ["a"]);
    }

    #[test]
    fn a_word_without_a_change_waits_for_the_commit_before_it() {
        let mut groups = Groups::new();
        groups.write(1);
        assert_eq!(groups.start(), Some(vec![1]));
        assert_eq!(groups.say("a"), None);
        assert_eq!(groups.end(), ["a"]);
        assert_eq!(groups.say("b"), Some("b"));
    }

    #[test]
    fn what_gathers_during_a_commit_is_the_next_group_and_keeps_its_words() {
        let mut groups = Groups::new();
        groups.write(1);
        assert_eq!(groups.say("a"), None);
        assert_eq!(groups.start(), Some(vec![1]));
        groups.write(2);
        assert_eq!(groups.say("b"), None);
        assert_eq!(groups.start(), None, "one at a time");
        groups.write(3);
        assert_eq!(groups.say("c"), None);
        assert_eq!(groups.end(), ["a"], "b and c wait for their own changes");
        assert_eq!(groups.start(), Some(vec![2, 3]));
        assert_eq!(groups.end(), ["b", "c"]);
    }
}
