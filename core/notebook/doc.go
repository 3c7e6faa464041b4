// Package notebook holds the decisions about notebooks: why one is not ready and
// what would help, where it stands in line and when there is room, what its timeline
// was, and whether a change of it means one restart or has to wait. It takes plain facts and gives
// plain answers. It knows no pod and talks to nobody: package controller/notebook
// reads the facts and writes the answers, and cli prints them.
package notebook
