//! The program `suffrage-lab`.
