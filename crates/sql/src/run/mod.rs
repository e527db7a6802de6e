//! Running plans: the evaluator of bound expressions, the operators, and the statements that write.
