// Package queues translates Queues, Namespaces, Nodes and Pods into the values of package
// quota: what queues have, which queue a pod enters, and what pods hold and ask for. It
// decides nothing about quota.
package queues
