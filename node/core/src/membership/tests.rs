//! Membership in a bottle: many of them, a pretended network, virtual time.

mod failing;
mod flock;
mod forming;
mod healing;
mod refusing;
mod rivals;
