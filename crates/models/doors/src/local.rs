//! `thread_local!`: one value for each thread of the model.

use std::cell::Cell;

use crate::checker::thread;

/// The standard library's `LocalKey`.
pub struct LocalKey<T: 'static>(#[doc(hidden)] pub thread::LocalKey<T>);

impl<T> LocalKey<T> {
    pub fn with<R>(&'static self, act: impl FnOnce(&T) -> R) -> R {
        self.0.with(act)
    }
}

impl<T> LocalKey<Cell<T>> {
    pub fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }

    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }

    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(Cell::take)
    }

    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }
}

impl<T> std::fmt::Debug for LocalKey<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("LocalKey")
    }
}

/// The standard library's `thread_local!`, for one value.
#[macro_export]
macro_rules! model_thread_local {
    ($(#[$attribute:meta])* $vis:vis static $name:ident: $value:ty = const { $init:expr } $(;)?) => {
        $crate::model_thread_local!($(#[$attribute])* $vis static $name: $value = $init);
    };
    ($(#[$attribute:meta])* $vis:vis static $name:ident: $value:ty = $init:expr $(;)?) => {
        $(#[$attribute])* $vis static $name: $crate::LocalKey<$value> = $crate::LocalKey(
            $crate::checker_crate::thread::LocalKey { init: || $init, _p: std::marker::PhantomData },
        );
    };
}
