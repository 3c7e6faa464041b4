// Package controller holds the controllers of the kinds that Berth runs, one
// folder each: they read objects, ask core what to do, and write. server runs them
// as one process. This folder itself holds nothing.
package controller
