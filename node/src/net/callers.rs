//! How often one address may come in, and how often it may fail to show who it is.
//!
//! Only what an address has proven to come from there counts: a handshake that was completed, or
//! a token of a retry. So nobody can use up what another address may do by claiming to be it.
//! Whoever goes beyond is barred for a while: it must prove its address first and is refused then,
//! which costs next to nothing. Of IPv6 a whole /64 counts as one address.
//!
//! What this file does not do: it closes nothing; `net/mod.rs` does.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

/// See the top of this file.
#[derive(Debug)]
pub(super) struct Callers {
    arrivals: DefaultKeyedRateLimiter<IpAddr>,
    failures: DefaultKeyedRateLimiter<IpAddr>,
    barred: Mutex<BTreeMap<IpAddr, Instant>>,
}

impl Callers {
    /// Nobody has come yet. Of one address so many may come per second, and some seconds' worth
    /// at once: a host of many clients comes back as a whole after a restart.
    pub(super) fn new(arrivals_max: NonZeroU32) -> Self {
        let burst = arrivals_max.saturating_mul(BURST_SECONDS);
        let arrivals = Quota::per_second(arrivals_max).allow_burst(burst);
        let failures = Quota::per_second(NonZeroU32::MIN).allow_burst(FAILURES_BURST);
        Self {
            arrivals: RateLimiter::keyed(arrivals),
            failures: RateLimiter::keyed(failures),
            barred: Mutex::default(),
        }
    }

    /// Whether whoever claims this address must prove it before anything else.
    pub(super) fn is_barred(&self, address: IpAddr) -> bool {
        let until = self.barred().get(&network_of(address)).copied();
        until.is_some_and(|until| Instant::now() < until)
    }

    /// Somebody came, who has proven to be at this address; whether it may stay.
    pub(super) fn may_come(&self, address: IpAddr) -> bool {
        if self.is_barred(address) {
            return false;
        }
        let network = network_of(address);
        let may = self.arrivals.check_key(&network).is_ok();
        if !may {
            self.bar(network, BARRED_FOR_HASTE);
        }
        self.forget();
        may
    }

    /// Somebody at this address, which is proven, did not show who it is.
    pub(super) fn failed(&self, address: IpAddr) {
        let network = network_of(address);
        if self.failures.check_key(&network).is_err() {
            self.bar(network, BARRED_FOR_FAILURE);
        }
    }

    fn bar(&self, network: IpAddr, duration: Duration) {
        let now = Instant::now();
        let mut barred = self.barred();
        barred.retain(|_, until| *until > now);
        barred.insert(network, now + duration);
    }

    /// Forgets who has all its rights again, once there are many.
    fn forget(&self) {
        if self.arrivals.len() > REMEMBERED_MAX {
            self.arrivals.retain_recent();
            self.failures.retain_recent();
        }
    }

    fn barred(&self) -> MutexGuard<'_, BTreeMap<IpAddr, Instant>> {
        self.barred.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who has one address of a /64 has all of it.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

/// As many may come at once as in so many seconds.
const BURST_SECONDS: NonZeroU32 = NonZeroU32::new(5).expect("it is not zero");
/// A certificate that has run out makes a client fail a few times before somebody looks.
const FAILURES_BURST: NonZeroU32 = NonZeroU32::new(20).expect("it is not zero");
/// Long enough that what comes meanwhile costs little, and short for clients that come back.
const BARRED_FOR_HASTE: Duration = Duration::from_secs(1);
/// Ten failures' worth.
const BARRED_FOR_FAILURE: Duration = Duration::from_secs(10);
/// Addresses remembered before those that do nothing any more are forgotten: some hundred KiB.
const REMEMBERED_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn who_comes_too_often_is_barred_and_nobody_else() {
        let callers = Callers::new(NonZeroU32::MIN);
        let (hasty, other) = (address("10.0.0.1"), address("10.0.0.2"));
        let came = (0..10).filter(|_| callers.may_come(hasty)).count();
        assert_eq!(came, 5, "as many as in five seconds, at once");
        assert!(callers.is_barred(hasty) && !callers.may_come(hasty));
        assert!(!callers.is_barred(other) && callers.may_come(other));
    }

    #[test]
    fn who_fails_again_and_again_is_barred() {
        let callers = Callers::new(NonZeroU32::new(1000).unwrap());
        let failing = address("10.0.0.1");
        for _ in 0..20 {
            callers.failed(failing);
            assert!(callers.may_come(failing));
        }
        callers.failed(failing);
        assert!(callers.is_barred(failing) && !callers.may_come(failing));
    }

    #[test]
    fn one_host_has_one_address_however_it_writes_it() {
        assert_eq!(network_of(address("::ffff:10.0.0.1")), address("10.0.0.1"));
        let (one, two) = (address("2001:db8::1"), address("2001:db8::ffff:0:2"));
        assert_eq!(network_of(one), network_of(two));
        assert_ne!(network_of(one), network_of(address("2001:db8:0:1::1")));
    }
}
