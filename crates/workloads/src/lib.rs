//! The benchmark workloads of HeddleDB, each written once on the public interface.
