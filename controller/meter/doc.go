// Package meter writes the ledger: it follows the nodes and pods of a cluster, and notes who holds which GPUs, and when
// that began and ended. What it reads it changes nowhere.
package meter
