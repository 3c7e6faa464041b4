// Package server runs Berth's controllers as one process, or inside the one of
// `berth up`: it makes their manager, elects who leads, serves metrics and health,
// says what rights they need, and decides for each kind whether Berth runs it or
// stands aside for another controller. What the controllers do is theirs.
package server
