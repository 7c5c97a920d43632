//! Failures of a run: a panic, caught, with the promise that it names.
//!
//! Checks panic, be they in the core or in here, and begin with the number of a promise where one
//! is at stake (`P4: ...`), or with `L` and a number where something does not come to its end.
//! What this file does not do: it judges nothing.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The number of the promise, or where the code stood if it named none.
    pub promise: String,
    /// What contradicts it.
    pub why: String,
}

thread_local! {
    /// What the last panic of this thread said, while panics are caught here.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Does some work, and catches its panic.
///
/// # Errors
/// The panic.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let said = CAUGHT.with_borrow_mut(|caught| match caught {
                Some(said) => {
                    *said = panic.to_string();
                    true
                }
                None => false,
            });
            if !said {
                before(panic);
            }
        }));
    });
    CAUGHT.set(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(work));
    let said = CAUGHT.take().unwrap_or_default();
    result.map_err(|_| Failure::parse(&said))
}

impl Failure {
    /// From the words of a panic: `panicked at FILE:LINE:COLUMN:` and what it said.
    fn parse(said: &str) -> Self {
        let (place, why) = said.split_once('\n').unwrap_or(("", said));
        let place = place.trim_start_matches("panicked at ").trim_end_matches(':');
        let promise = why.split(':').find_map(|part| {
            let word = part.rsplit(|c: char| !c.is_ascii_alphanumeric()).next()?;
            let number = word.strip_prefix(['P', 'L'])?;
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| word.to_owned())
        });
        let line = || place.rsplit_once(':').map_or(place, |(line, _)| line).to_owned();
        Self { promise: promise.unwrap_or_else(line), why: why.replace('\n', " ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_caught_with_the_promise_it_names() {
        let failure = caught(|| panic!("P4: {} came back", 7)).unwrap_err();
        assert_eq!((&*failure.promise, &*failure.why), ("P4", "P4: 7 came back"));
        let failure = caught(|| assert_eq!(1, 2, "P1: each host counts once")).unwrap_err();
        assert_eq!(failure.promise, "P1");
        assert_eq!(caught(|| 5), Ok(5));
    }

    #[test]
    fn a_panic_that_names_no_promise_is_known_by_its_line() {
        let failure = caught(|| panic!("Peter: no")).unwrap_err();
        assert!(failure.promise.starts_with("sim/src/failure.rs:"), "{failure:?}");
    }
}
