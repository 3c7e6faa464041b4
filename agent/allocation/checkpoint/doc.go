// Package checkpoint reads which container the kubelet has given which device
// IDs: from the checkpoint file of its device manager, and, where that cannot be
// read, from its pod-resources API.
//
// It knows the names that the node answers the kubelet with, and nothing of
// devices; package ledger does.
package checkpoint
