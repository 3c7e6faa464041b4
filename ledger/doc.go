// Package ledger is the book of who held which GPUs, and what that cost: one SQLite file with one writer. It has facts
// only: when nodes were up and what they cost, who held which parts of them, and what nobody could use. What that adds
// up to is computed from them by package cost.
package ledger
