//! Clients that do not behave: each is closed with a reason, and nobody else notices.
