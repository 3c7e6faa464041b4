// Package runtime runs Berth's controllers as one process, or inside the process
// of `berth up`. It elects a leader, serves metrics and health, checks the rights
// of the process, installs the definitions, and decides for each kind whether
// Berth runs it or leaves it to another controller of the cluster.
//
// A kind describes itself as a Kind; what its controllers do is in their own
// packages.
package runtime
