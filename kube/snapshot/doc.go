// Package snapshot builds the input of cluster.New from Node and Pod objects: what nodes
// offer, what pods hold, and what pods ask for.
package snapshot
