//! Groups of consumers: their members, how they share partitions, and the offsets that they commit.

pub mod assignors;
pub mod classic;
pub mod committed;
pub mod enrolment;
pub mod group_protocol;
pub mod groups;
pub mod member_messages;
pub mod membership;
pub mod place;
pub mod server_assigned;
pub mod sticky;
