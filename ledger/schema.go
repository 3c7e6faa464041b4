package ledger

// version is that of the schema; one that is newer is not opened.
const version = 7

// schema makes an empty book. Times are milliseconds since 1970, and NULL where an interval goes on; parts are of GPUs,
// as in package quota.
const schema = `
CREATE TABLE IF NOT EXISTS nodes (
	uid TEXT PRIMARY KEY, name TEXT NOT NULL, product TEXT NOT NULL, instance TEXT NOT NULL, region TEXT NOT NULL, zone TEXT NOT NULL, capacity TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pods (
	uid TEXT PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, owner TEXT NOT NULL, user TEXT NOT NULL, queue TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS holds (
	pod TEXT NOT NULL, begins INTEGER NOT NULL, ends INTEGER, source TEXT NOT NULL, late INTEGER NOT NULL, node TEXT NOT NULL, parts INTEGER NOT NULL, PRIMARY KEY (pod, begins)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS holds_by_end ON holds (ends);
CREATE TABLE IF NOT EXISTS ups (
	node TEXT NOT NULL, begins INTEGER NOT NULL, ends INTEGER, source TEXT NOT NULL, late INTEGER NOT NULL, parts INTEGER NOT NULL, PRIMARY KEY (node, begins)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS strands (
	node TEXT NOT NULL, reason TEXT NOT NULL, begins INTEGER NOT NULL, ends INTEGER, source TEXT NOT NULL, late INTEGER NOT NULL, parts INTEGER NOT NULL, PRIMARY KEY (node, reason, begins)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS prices (
	node TEXT NOT NULL, begins INTEGER NOT NULL, ends INTEGER, micros INTEGER NOT NULL, currency TEXT NOT NULL, source TEXT NOT NULL, remark TEXT NOT NULL, PRIMARY KEY (node, begins)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lows (
	pod TEXT NOT NULL, begins INTEGER NOT NULL, ends INTEGER, source TEXT NOT NULL, late INTEGER NOT NULL, shared INTEGER NOT NULL, PRIMARY KEY (pod, begins)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS lows_by_end ON lows (ends);
CREATE TABLE IF NOT EXISTS uses (
	begins INTEGER NOT NULL, pod TEXT NOT NULL, ends INTEGER NOT NULL, used INTEGER NOT NULL, busy INTEGER NOT NULL, memory INTEGER NOT NULL, shared INTEGER NOT NULL, PRIMARY KEY (begins, pod)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS askers (
	uid TEXT PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, owner TEXT NOT NULL, user TEXT NOT NULL, queue TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS records (
	at INTEGER NOT NULL, subject TEXT NOT NULL, act TEXT NOT NULL, node TEXT NOT NULL, reason TEXT NOT NULL, detail TEXT NOT NULL, PRIMARY KEY (at, subject, act)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS alive (one INTEGER PRIMARY KEY CHECK (one = 1), began INTEGER NOT NULL, at INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS prices_by_end ON prices (ends);
CREATE TABLE IF NOT EXISTS label_sets (id INTEGER PRIMARY KEY, labels TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS pod_labels (pod TEXT PRIMARY KEY, labels INTEGER NOT NULL) WITHOUT ROWID;
` + daySchema + lossSchema

// lossSchema is what was lost of a book that was damaged: begins is NULL if that is from its beginning on.
const lossSchema = `
CREATE TABLE IF NOT EXISTS losses (
	id INTEGER PRIMARY KEY, at INTEGER NOT NULL, begins INTEGER, ends INTEGER NOT NULL, node TEXT NOT NULL, what TEXT NOT NULL
);
`

// daySchema is the sums of days that are closed, and the links of their chain. A day is in days while its sums are those of the
// facts, and a month in months while all its days are. kept has since when there are facts. reopened has why the sums of a day were
// dropped, and rerated the prices that a rerating has replaced. day_workloads has what each workload of a day is charged, while there are
// facts of that day.
const daySchema = `
CREATE TABLE IF NOT EXISTS days (day INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS reopened (day INTEGER PRIMARY KEY, why TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sums (
	day INTEGER NOT NULL, namespace TEXT NOT NULL, user TEXT NOT NULL, queue TEXT NOT NULL, product TEXT NOT NULL, what INTEGER NOT NULL, reason TEXT NOT NULL, currency TEXT NOT NULL,
	part_millis INTEGER NOT NULL, unpriced INTEGER NOT NULL, micros INTEGER NOT NULL, PRIMARY KEY (day, what, reason, namespace, user, queue, product, currency)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS day_workloads (day INTEGER PRIMARY KEY, rows BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS months (month INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS month_sums (
	month INTEGER NOT NULL, namespace TEXT NOT NULL, user TEXT NOT NULL, queue TEXT NOT NULL, product TEXT NOT NULL, what INTEGER NOT NULL, reason TEXT NOT NULL, currency TEXT NOT NULL,
	part_millis INTEGER NOT NULL, unpriced INTEGER NOT NULL, micros INTEGER NOT NULL, PRIMARY KEY (month, what, reason, namespace, user, queue, product, currency)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS kept (one INTEGER PRIMARY KEY CHECK (one = 1), since INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS reratings (
	id INTEGER PRIMARY KEY, at INTEGER NOT NULL, begins INTEGER NOT NULL, ends INTEGER NOT NULL, user TEXT NOT NULL, reason TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS rerated (
	rerating INTEGER NOT NULL, node TEXT NOT NULL, begins INTEGER NOT NULL, ends INTEGER NOT NULL, micros INTEGER NOT NULL, currency TEXT NOT NULL, source TEXT NOT NULL, remark TEXT NOT NULL,
	PRIMARY KEY (rerating, node, begins)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS links (
	seq INTEGER PRIMARY KEY, day INTEGER NOT NULL, at INTEGER NOT NULL, why TEXT NOT NULL, facts BLOB NOT NULL, sums BLOB NOT NULL, hash BLOB NOT NULL
);
`
