//! The two transactions.

use std::hint::black_box;

use heddledb::{
    Action, ActionContext, Column, DataType, Database, Error, Procedure, ProcedureDefinition, Result, Table,
};

use super::Tables;
use crate::pause::Pause;

/// Places of both transactions' arguments.
const USER: usize = 0;
const PAGE: usize = 1;

/// Registers `like` and `read`.
pub(super) fn register(db: &Database, tables: &Tables, pause: Pause) -> Result<[Procedure; 2]> {
    let definition = |name: &str| {
        ProcedureDefinition::new(name).parameter("user", DataType::Int64).parameter("page", DataType::Int64)
    };
    let Tables { page, page_likes, user, user_likes, last_page } = tables;
    let like = definition("like")
        .phase([change_user(user, *user_likes, *last_page, pause), like_page(page, *page_likes, pause)]);
    let read = definition("read").phase([
        look(user, USER, [*user_likes, *last_page], pause),
        look(page, PAGE, [*page_likes, *page_likes], pause),
    ]);
    Ok([db.register_anonymous(like)?, db.register_anonymous(read)?])
}

fn change_user(user: &Table, likes: Column, last_page: Column, pause: Pause) -> Action {
    Action::write(user).key(|args, key| key.push(args.int(USER)?)).body(move |action: &ActionContext| {
        action.update(&[(last_page, action.args().int(PAGE)?.into())])?;
        action.add(likes, 1)?;
        pause.take();
        Ok(())
    })
}

fn like_page(page: &Table, likes: Column, pause: Pause) -> Action {
    Action::commute(page).key(|args, key| key.push(args.int(PAGE)?)).body(move |action: &ActionContext| {
        action.add(likes, 1)?;
        pause.take();
        Ok(())
    })
}

/// Reads two columns of the row that an argument names.
fn look(table: &Table, place: usize, columns: [Column; 2], pause: Pause) -> Action {
    let name = table.name().to_owned();
    Action::read(table).key(move |args, key| key.push(args.int(place)?)).body(
        move |action: &ActionContext| {
            let row = action.get()?.ok_or_else(|| Error::MissingKey {
                table: name.clone(),
                key: action.args().get(place).map_or_else(|_| String::new(), ToString::to_string),
            })?;
            // The values go nowhere; the compiler must not take the reads for useless.
            black_box(row.int(columns[0])?);
            black_box(row.int(columns[1])?);
            pause.take();
            Ok(())
        },
    )
}
