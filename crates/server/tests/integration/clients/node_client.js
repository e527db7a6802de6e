// node-postgres against a server: types, prepared statements, transactions, errors, cursors, COPY, LISTEN, a pool.
//
// Usage: node node_client.js CONNECTION_URL    (needs pg, pg-cursor, pg-copy-streams)

const assert = require('assert');
const { Client, Pool } = require('pg');
const Cursor = require('pg-cursor');
const { from: copyFrom, to: copyTo } = require('pg-copy-streams');
const { pipeline } = require('stream/promises');
const { Readable, Writable } = require('stream');

const connectionString = process.argv[2];

async function connect() {
  const client = new Client({ connectionString });
  await client.connect();
  return client;
}

async function types() {
  const client = await connect();
  for (const [type, value, expected] of [
    ['bool', true], ['int4', 7], ['int8', '9007199254740993'], ['float8', 1.5], ['numeric', '1.50'], ['text', 'naïve ☃'],
    ['jsonb', { a: [1, null] }], ['int4[]', [1, null, 3]], ['text[]', ['a"b', 'c']], ['bytea', Buffer.from([0, 255])],
    ['uuid', '00000000-0000-0000-0000-0000000000ff'],
    ['timestamptz', new Date('2024-02-29T01:02:03Z')],
  ]) {
    const { rows } = await client.query(`SELECT $1::${type} AS v, NULL::${type} AS n`, [value]);
    assert.deepStrictEqual(rows[0].v, expected ?? value, type);
    assert.strictEqual(rows[0].n, null);
  }
  await client.end();
}

async function transactions() {
  const client = await connect();
  await client.query('DROP TABLE IF EXISTS n_item');
  await client.query('CREATE TABLE n_item (id serial PRIMARY KEY, name text UNIQUE NOT NULL)');
  await client.query('BEGIN');
  const inserted = await client.query({ name: 'insert', text: 'INSERT INTO n_item (name) VALUES ($1) RETURNING id', values: ['a'] });
  assert.strictEqual(inserted.rows[0].id, 1);
  await client.query('SAVEPOINT s');
  await assert.rejects(client.query({ name: 'insert', text: 'INSERT INTO n_item (name) VALUES ($1) RETURNING id', values: ['a'] }),
    { code: '23505', constraint: 'n_item_name_key', table: 'n_item' });
  await assert.rejects(client.query('SELECT 1'), { code: '25P02' });
  await client.query('ROLLBACK TO s');
  await client.query('COMMIT');
  const several = await client.query('SELECT 1 AS one; SELECT 2 AS two');
  assert.deepStrictEqual(several.map((result) => result.rows[0]), [{ one: 1 }, { two: 2 }]);
  await assert.rejects(client.query('SELEC'), { code: '42601', position: '1' });
  await client.end();
}

async function cursors() {
  const client = await connect();
  const cursor = client.query(new Cursor('SELECT g FROM generate_series(1, 105) AS g ORDER BY g'));
  let read = 0;
  for (let rows = await cursor.read(10); rows.length > 0; rows = await cursor.read(10)) read += rows.length;
  assert.strictEqual(read, 105);
  await cursor.close();
  const partly = client.query(new Cursor('SELECT g FROM generate_series(1, 105) AS g'));
  await partly.read(3);
  await partly.close();
  assert.strictEqual((await client.query('SELECT 1 AS one')).rows[0].one, 1);
  await client.end();
}

async function copy() {
  const client = await connect();
  await client.query('DROP TABLE IF EXISTS n_copy');
  await client.query('CREATE TABLE n_copy (id int PRIMARY KEY, t text)');
  const lines = Array.from({ length: 2000 }, (_, i) => `${i}\ttext ${i}\n`);
  await pipeline(Readable.from(lines), client.query(copyFrom('COPY n_copy FROM STDIN')));
  let text = '';
  const sink = new Writable({ write(chunk, _, done) { text += chunk; done(); } });
  await pipeline(client.query(copyTo('COPY (SELECT * FROM n_copy ORDER BY id) TO STDOUT')), sink);
  assert.strictEqual(text, lines.join(''));
  await client.end();
}

async function listen() {
  const [listener, sender] = [await connect(), await connect()];
  const heard = [];
  const both = new Promise((resolve) => listener.on('notification', ({ payload }) => heard.push(payload) === 2 && resolve()));
  await listener.query('LISTEN news');
  await sender.query("NOTIFY news, 'one'");
  await sender.query("SELECT pg_notify('news', 'two')");
  await both;
  assert.deepStrictEqual(heard, ['one', 'two']);
  const notice = new Promise((resolve) => sender.on('notice', resolve));
  await sender.query('DROP TABLE IF EXISTS there_is_no_such_table');
  assert.strictEqual((await notice).severity, 'NOTICE');
  await listener.end();
  await sender.end();
}

async function pool() {
  const connections = new Pool({ connectionString, max: 6 });
  await connections.query('DROP TABLE IF EXISTS n_hot');
  await connections.query('CREATE TABLE n_hot (id int PRIMARY KEY, v int)');
  await connections.query('INSERT INTO n_hot VALUES (1, 0)');
  await Promise.all(Array.from({ length: 60 }, () => connections.query('UPDATE n_hot SET v = v + $1 WHERE id = 1', [1])));
  assert.strictEqual((await connections.query('SELECT v FROM n_hot')).rows[0].v, 60);
  await connections.end();
}

(async () => {
  let failed = false;
  for (const check of [types, transactions, cursors, copy, listen, pool]) {
    try {
      await check();
      console.log(`node-postgres: ${check.name} ok`);
    } catch (error) {
      failed = true;
      console.log(`node-postgres: ${check.name} FAILED`, error);
    }
  }
  process.exit(failed ? 1 : 0);
})();
