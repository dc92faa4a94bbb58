//! The study: one observation at a time of what layout, transport, controller and connections cost.

pub(crate) mod observation;
