// Package meter writes the ledger: it follows the nodes and pods of a cluster, and writes down which pod holds which GPUs, and
// from when to when. It changes nothing in the cluster but how the budgets of Queues stand, in their status.
package meter
