//! The writers of all resources of a group, taken together.

use super::error::BackError;
use crate::migration::steps::writeback::{Account, Writer};

/// Returns the number of objects that have changed since they were last written.
pub(super) fn waiting(writers: &[Writer<'_>]) -> usize {
    writers.iter().map(Writer::waiting).sum()
}

/// Returns the number of times that the watches on the server were cut.
pub(super) fn resumed(writers: &[Writer<'_>]) -> u32 {
    writers.iter().map(Writer::resumed).sum()
}

pub(super) fn total(accounts: Vec<Account>) -> Result<(), BackError> {
    let mut account = Account::default();
    for one in accounts {
        account.add(one);
    }
    check(&account)
}

pub(super) fn check(account: &Account) -> Result<(), BackError> {
    if account.refused == 0 {
        return Ok(());
    }
    Err(BackError::Refused {
        count: account.refused,
        named: account.refused_names.clone(),
    })
}
