//! Transaction control: BEGIN, COMMIT, ROLLBACK, savepoints, LOCK TABLE.

use crate::error::{Result, SqlState};
use crate::parse::parser::Parser;
use crate::parse::syntax::{Isolation, Statement, TransactionModes};

impl Parser<'_> {
    /// A statement that begins with `word`.
    pub fn transaction(&mut self, word: &str) -> Result<Statement> {
        self.advance();
        match word {
            "begin" => {
                self.accept_work();
                Ok(Statement::Begin { modes: self.transaction_modes()?, tag: "BEGIN" })
            }
            "start" => {
                self.expect("transaction")?;
                Ok(Statement::Begin { modes: self.transaction_modes()?, tag: "START TRANSACTION" })
            }
            "commit" | "end" => {
                self.refuse_two_phase()?;
                self.accept_work();
                Ok(Statement::Commit { chain: self.chain()? })
            }
            "savepoint" => Ok(Statement::Savepoint(self.label()?)),
            "release" => {
                self.accept("savepoint");
                Ok(Statement::Release(self.label()?))
            }
            _ => {
                self.refuse_two_phase()?;
                self.accept_work();
                if self.accept("to") {
                    self.accept("savepoint");
                    return Ok(Statement::RollbackTo(self.label()?));
                }
                Ok(Statement::Rollback { chain: self.chain()? })
            }
        }
    }

    fn accept_work(&mut self) {
        if !self.accept("work") {
            self.accept("transaction");
        }
    }

    fn refuse_two_phase(&mut self) -> Result<()> {
        if self.is_word(0, "prepared") {
            let message = "two-phase commit is not supported";
            return Err(self.error(self.position(), SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        Ok(())
    }

    fn chain(&mut self) -> Result<bool> {
        if !self.accept("and") {
            return Ok(false);
        }
        let chain = !self.accept("no");
        self.expect("chain")?;
        Ok(chain)
    }

    /// Modes with or without commas.
    pub fn transaction_modes(&mut self) -> Result<TransactionModes> {
        let mut modes = TransactionModes::default();
        loop {
            match () {
                () if self.accept_words(&["isolation", "level"]) => modes.isolation = Some(self.isolation()?),
                () if self.accept_words(&["read", "only"]) => modes.read_only = Some(true),
                () if self.accept_words(&["read", "write"]) => modes.read_only = Some(false),
                () if self.accept("deferrable") => modes.deferrable = Some(true),
                () if self.accept_words(&["not", "deferrable"]) => modes.deferrable = Some(false),
                () => return Ok(modes),
            }
            if self.accept_mark(",") && !self.is_one_of(&["isolation", "read", "deferrable", "not"]) {
                return Err(self.unexpected());
            }
        }
    }

    fn isolation(&mut self) -> Result<Isolation> {
        match () {
            () if self.accept("serializable") => Ok(Isolation::Serializable),
            () if self.accept_words(&["repeatable", "read"]) => Ok(Isolation::RepeatableRead),
            () if self.accept_words(&["read", "committed"]) => Ok(Isolation::ReadCommitted),
            () if self.accept_words(&["read", "uncommitted"]) => Ok(Isolation::ReadUncommitted),
            () => Err(self.unexpected()),
        }
    }

    /// `LOCK [TABLE] names [IN mode MODE] [NOWAIT]`
    pub fn lock_table(&mut self) -> Result<Statement> {
        self.expect("lock")?;
        self.accept("table");
        self.accept("only");
        let tables = self.list(Self::object_name)?;
        let mut mode = "access exclusive".to_string();
        if self.accept("in") {
            let mut words = Vec::new();
            while !self.accept("mode") {
                words.push(self.label()?.text);
            }
            mode = words.join(" ");
            if !LOCK_MODES.contains(&mode.as_str()) {
                return Err(self.unexpected());
            }
        }
        let no_wait = self.accept("nowait");
        Ok(Statement::LockTable { tables, mode, no_wait })
    }
}

const LOCK_MODES: &[&str] = &[
    "access share",
    "row share",
    "row exclusive",
    "share update exclusive",
    "share",
    "share row exclusive",
    "exclusive",
    "access exclusive",
];
