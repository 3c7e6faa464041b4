// Package evict evicts pods for others, within their disruption budgets, and knows
// whose eviction is under way.
package evict
