// Package quota decides how many GPUs each queue may hold: its own nominal quota, what
// it borrows of the unused quota of others, and what each user and each pod may have.
// A Tree has the queues and their numbers; a Book counts what is held and keeps those
// that wait for quota in line; Victims says which pods give borrowed quota back.
//
// All of it are values and functions without a clock. The rules of a tree that lends
// are those of Kueue's cohorts (KEP 79), over GPUs as they are, in parts.
package quota
