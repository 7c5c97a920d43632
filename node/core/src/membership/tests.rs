//! Membership in a bottle: many of them, a pretended network, virtual time.

mod answering;
mod failing;
mod flock;
mod forged;
mod forming;
mod healing;
mod refusing;
mod rivals;
