// Package ledger is the book of which pods held which GPUs, and what that cost: one SQLite file with one writer. It has facts
// only: when nodes were up, their prices, which pods held parts of them, and which parts no pod could get. Package cost
// computes charges from them.
package ledger
